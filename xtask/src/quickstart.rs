//! A quickstart page, followed to the letter: its files and commands, up to its first answered request.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};

use crate::cmd::{cmd, stdout_of};
use crate::house::House;
use crate::running::Running;

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
}

/// A reader of a page.
pub(crate) struct Reader<'a> {
    /// Where the commands are typed at first.
    pub(crate) folder: PathBuf,
    /// Where the reader's shell finds `meridian`.
    pub(crate) programs: &'a Path,
    /// Whether the reader has inference servers, and starts no model engines.
    pub(crate) has_servers: bool,
}

impl Reader<'_> {
    /// Follows a page from the first step to an answered request; returns the number of commands.
    pub(crate) fn follow(&self, house: &House, page: &str) -> anyhow::Result<usize> {
        let steps = steps(house.file(page)?);
        let (mut folder, mut servers, mut commands) = (self.folder.clone(), Vec::new(), 0);
        for step in &steps {
            let typed = match step {
                Step::File(name, text) => {
                    std::fs::write(folder.join(name), text).with_context(|| name.clone())?;
                    continue;
                }
                Step::Command(typed) => typed,
            };
            if self.has_servers && typed.starts_with(SERVERS[0]) {
                continue;
            }
            commands += 1;
            if let Some(inside) = typed.strip_prefix("cd ") {
                folder.push(inside);
            } else if SERVERS.iter().any(|server| typed.starts_with(server)) {
                let log = self.folder.join(format!("server-{commands}.log"));
                let server = Running::start(self.shell(&folder, &format!("exec {typed}")), &log);
                servers.push(server.with_context(|| format!("{page}: {typed}"))?);
            } else if typed.starts_with("curl") {
                let messages = || servers.iter().map(Running::messages).collect::<String>();
                self.answered(&folder, typed).with_context(messages)?;
                // The last started first, so that a gateway ends before its servers.
                servers.into_iter().rev().try_for_each(Running::stop)?;
                return Ok(commands);
            } else {
                stdout_of(self.shell(&folder, typed)).with_context(|| typed.clone())?;
            }
        }
        anyhow::bail!("{page} sends no request: {steps:?}")
    }

    /// Repeats the request until the gateway has found its servers.
    fn answered(&self, folder: &Path, request: &str) -> anyhow::Result<()> {
        let start = Instant::now();
        loop {
            let answer = stdout_of(self.shell(folder, request))?;
            if answer.starts_with("HTTP/1.1 200") && answer.contains("\"choices\"") {
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

fn typed(block: &[&str], prompt: &str) -> Vec<Step> {
    let mut commands: Vec<String> = Vec::new();
    let mut continues = false;
    for line in block {
        if let Some(last) = commands.last_mut().filter(|_| continues) {
            *last = format!("{last}\n{line}");
        } else if let Some(typed) = line.strip_prefix(prompt) {
            commands.push(typed.to_owned());
        } else {
            continue;
        }
        continues = line.ends_with('\\');
    }
    commands.into_iter().map(Step::Command).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    // Lines behind a prompt and whole sh blocks are commands, their continued lines belong to them,
    // and printed lines do not; only YAML with a name is a file.
    #[test]
    fn reads_the_steps_of_a_page() {
        let page = "text\n```sh\na\nb \\\n  c\n```\n$ no\n```yaml\n# f.yaml\nx: 1\n```\n```yaml\ny: 2\n\
                    ```\n```console\n$ curl x \\\n    -d y\nHTTP\n```\n```python\nz\n```\n";
        let command = |text: &str| Step::Command(text.to_owned());
        let file = Step::File("f.yaml".to_owned(), "# f.yaml\nx: 1\n".to_owned());
        let wanted = [command("a"), command("b \\\n  c"), file, command("curl x \\\n    -d y")];
        assert_eq!(steps(page), wanted);
    }
}
