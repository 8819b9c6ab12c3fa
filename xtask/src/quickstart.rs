//! The quickstart, followed to the letter: the files and commands of a section, up to its first answered
//! request.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};

use crate::cmd::{cmd, stdout_of};
use crate::house::House;
use crate::running::Running;

/// The page. Each of its sections is a quickstart of its own.
pub(crate) const PAGE: &str = "docs/quickstart.md";
/// Servers join in seconds; a gateway without them after this time has failed.
const LIMIT: Duration = Duration::from_secs(60);
/// The commands that run until they are stopped.
const SERVERS: [&str; 2] = ["meridian engine", "meridian gateway"];

/// One thing that the reader does.
#[derive(Debug, PartialEq)]
enum Step {
    /// Writes a file: its name and its text.
    File(String, String),
    /// Types a command.
    Command(String),
    /// Types the request, and sees these headers in the answer.
    Request(String, Vec<String>),
}

/// A reader of a page.
pub(crate) struct Reader<'a> {
    /// Where the commands are typed at first.
    pub(crate) folder: PathBuf,
    /// Where the reader's shell finds `meridian`.
    pub(crate) programs: &'a Path,
    /// Whether the reader has inference servers, and starts no model engines.
    pub(crate) has_servers: bool,
    /// The addresses of the servers that the page's text says to stop before its request.
    pub(crate) stops: &'static [&'static str],
}

impl Reader<'_> {
    /// Follows a section from its first step to an answered request; returns the number of commands.
    pub(crate) fn follow(&self, house: &House, heading: &str) -> anyhow::Result<usize> {
        let section = house.file(PAGE)?.split_once(&format!("\n{heading}\n"));
        let (_, section) = section.with_context(|| format!("{PAGE} has no {heading}"))?;
        let steps = steps(section);
        let (mut folder, mut servers, mut commands) = (self.folder.clone(), Vec::new(), 0);
        for step in &steps {
            match step {
                Step::File(name, text) => {
                    std::fs::write(folder.join(name), text).with_context(|| name.clone())?;
                }
                Step::Command(typed) if self.has_servers && typed.starts_with(SERVERS[0]) => {}
                Step::Command(typed) => {
                    commands += 1;
                    self.typed(typed, &mut folder, &mut servers)?;
                }
                Step::Request(typed, headers) => {
                    self.asked(&folder, servers, typed, headers)?;
                    return Ok(commands + 1);
                }
            }
        }
        anyhow::bail!("{heading} sends no request: {steps:?}")
    }

    /// Types a command. A server runs until the page has been followed.
    fn typed(
        &self,
        typed: &str,
        folder: &mut PathBuf,
        servers: &mut Vec<Server>,
    ) -> anyhow::Result<()> {
        if let Some(inside) = typed.strip_prefix("cd ") {
            folder.push(inside);
        } else if SERVERS.iter().any(|server| typed.starts_with(server)) {
            let log = self.folder.join(format!("server-{}.log", servers.len()));
            let running = Running::start(self.shell(folder, &format!("exec {typed}")), &log);
            let running = running.with_context(|| format!("{typed}: is its port in use?"))?;
            servers.push(Server { typed: typed.to_owned(), running });
        } else {
            stdout_of(self.shell(folder, typed)).with_context(|| typed.to_owned())?;
        }
        Ok(())
    }

    /// Sends the request, once the servers that the page stops have been seen to serve, and stops all.
    fn asked(
        &self,
        folder: &Path,
        servers: Vec<Server>,
        request: &str,
        headers: &[String],
    ) -> anyhow::Result<()> {
        let messages = |servers: &[Server]| {
            servers.iter().map(|one| one.running.messages()).collect::<String>()
        };
        if !self.stops.is_empty() {
            self.answered(folder, request, &[]).with_context(|| messages(&servers))?;
        }
        let stops = |one: &Server| self.stops.iter().any(|address| one.typed.ends_with(address));
        let (stop, servers): (Vec<_>, Vec<_>) = servers.into_iter().partition(stops);
        ensure!(stop.len() == self.stops.len(), "the page does not start all of {:?}", self.stops);
        stopped(stop)?;
        self.answered(folder, request, headers).with_context(|| messages(&servers))?;
        stopped(servers)
    }

    /// Repeats the request until the gateway has found its servers. The answer has these headers.
    fn answered(&self, folder: &Path, request: &str, headers: &[String]) -> anyhow::Result<()> {
        let start = Instant::now();
        loop {
            let answer = stdout_of(self.shell(folder, request))?;
            if answer.starts_with("HTTP/1.1 200") && answer.contains("\"choices\"") {
                let lacks = headers.iter().find(|name| !answer.contains(&format!("\n{name}: ")));
                ensure!(lacks.is_none(), "{request}\nlacks {lacks:?} in the answer {answer}");
                return Ok(());
            }
            let early = answer.starts_with("HTTP/1.1 503") && start.elapsed() < LIMIT;
            ensure!(early, "{request}\nanswered {answer}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// A command line as a user types it.
    pub(crate) fn shell(&self, folder: &Path, line: &str) -> Command {
        let mut command = cmd(folder, "sh", &["-c", line]);
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{}:{path}", self.programs.display()));
        command
    }
}

/// A server that the reader started.
struct Server {
    /// Its command.
    typed: String,
    running: Running,
}

/// Stops servers, the last one first: a gateway ends before its replicas.
fn stopped(servers: Vec<Server>) -> anyhow::Result<()> {
    servers.into_iter().rev().try_for_each(|server| server.running.stop())
}

/// The steps of a page: YAML blocks that begin with the name of a file, `sh` blocks, and the lines
/// behind a prompt in `console` blocks. Continued lines are joined.
fn steps(page: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        let Some(language) = line.strip_prefix("```").filter(|language| !language.is_empty())
        else {
            continue;
        };
        let block: Vec<&str> = lines.by_ref().take_while(|line| !line.starts_with("```")).collect();
        match language {
            "yaml" => steps.extend(file(&block)),
            "sh" => steps.extend(typed(&block, "")),
            "console" => steps.extend(typed(&block, "$ ")),
            _ => {}
        }
    }
    steps
}

fn file(block: &[&str]) -> Option<Step> {
    let name = block.first()?.strip_prefix("# ").filter(|name| name.ends_with(".yaml"))?;
    Some(Step::File(name.to_owned(), block.join("\n") + "\n"))
}

/// The commands of a block. The request is the one that prints headers; the page shows them behind it.
fn typed(block: &[&str], prompt: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut continues = false;
    for line in block {
        match (steps.last_mut(), line.strip_prefix(prompt)) {
            (Some(Step::Command(last) | Step::Request(last, _)), _) if continues => {
                *last = format!("{last}\n{line}");
            }
            (_, Some(typed)) if typed.starts_with("curl -i ") => {
                steps.push(Step::Request(typed.to_owned(), Vec::new()));
            }
            (_, Some(typed)) => steps.push(Step::Command(typed.to_owned())),
            (Some(Step::Request(_, headers)), None) => {
                headers.extend(line.split_once(": ").map(|(name, _)| name.to_owned()));
            }
            _ => continue,
        }
        continues = line.ends_with('\\');
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    // Lines behind a prompt and whole sh blocks are commands, their continued lines belong to them,
    // and printed lines do not; only YAML with a name is a file.
    #[test]
    fn reads_the_steps_of_a_page() {
        let page = "text\n```sh\na\nb \\\n  c\n```\n$ no\n```yaml\n# f.yaml\nx: 1\n```\n```yaml\ny: 2\n\
                    ```\n```console\n$ curl -i x \\\n    -d y\nHTTP\nx-a: b\n```\n```python\nz\n```\n";
        let command = |text: &str| Step::Command(text.to_owned());
        let file = Step::File("f.yaml".to_owned(), "# f.yaml\nx: 1\n".to_owned());
        let request = Step::Request("curl -i x \\\n    -d y".to_owned(), vec!["x-a".to_owned()]);
        assert_eq!(steps(page), [command("a"), command("b \\\n  c"), file, request]);
    }
}
