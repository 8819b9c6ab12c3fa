//! The platform engineer's quickstart, followed to the letter: a new Python environment, the page's
//! own file and commands, and two real llama.cpp servers at the page's addresses.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};

use crate::cmd::{cmd, stdout_of};
use crate::dist::Made;
use crate::dist::programs::MERIDIAN;
use crate::house::House;
use crate::running::Running;

const PAGE: &str = "docs/quickstart-platform.md";
/// The page's servers and their model.
const PORTS: [&str; 2] = ["8000", "8001"];
const MODEL: &str = "llama-3.1-8b";
/// Most commands that a new user should need, the installation included.
const MOST: usize = 5;
/// The servers join in seconds; a gateway without them after this time has failed.
const LIMIT: Duration = Duration::from_secs(60);

// From a new environment to an answered request in at most five commands. The time is printed.
pub(super) fn leads_to_an_answer(house: &House, made: &Made) -> anyhow::Result<()> {
    let page = house.file(PAGE)?;
    let folder = made.place.stage("test-quickstart")?;
    let servers = PORTS.map(|port| llamacpp(house, made, &folder, port));
    let servers = servers.into_iter().collect::<anyhow::Result<Vec<_>>>()?;
    stdout_of(cmd(&folder, "python3", &["-m", "venv", "env"]))?;

    let start = Instant::now();
    let install = format!("pip install --quiet --no-index {}", made.wheel.display());
    stdout_of(shell(&folder, &install)).with_context(|| install.clone())?;
    let file = block(page, "yaml").context("the page has no YAML block")?;
    std::fs::write(folder.join("gateway.yaml"), file).context("gateway.yaml")?;
    let commands = commands(page);
    let count = commands.len() + 1;
    ensure!(count <= MOST, "the page needs {count} commands, more than {MOST}: {commands:?}");
    let (request, before) = commands.split_last().context("the page has no commands")?;
    let mut gateway = None;
    for command in before {
        if command.starts_with("meridian gateway") {
            let serve = shell(&folder, &format!("exec {command}"));
            gateway = Some(Running::start(serve, &folder.join("gateway.log"))?);
        } else {
            stdout_of(shell(&folder, command)).with_context(|| command.clone())?;
        }
    }
    let gateway = gateway.context("the page starts no gateway before its first request")?;
    ensure!(request.starts_with("curl"), "the page sends no request: {commands:?}");
    answered(&folder, request).with_context(|| gateway.messages())?;
    println!("  {PAGE}: {count} commands, {:.1} s", start.elapsed().as_secs_f64());
    gateway.stop()?;
    servers.into_iter().try_for_each(Running::stop)
}

/// Repeats the page's request until the gateway has found its servers.
fn answered(folder: &Path, request: &str) -> anyhow::Result<()> {
    let start = Instant::now();
    loop {
        let answer = stdout_of(shell(folder, request))?;
        if answer.starts_with("HTTP/1.1 200") && answer.contains("\"choices\"") {
            return Ok(());
        }
        let early = answer.starts_with("HTTP/1.1 503") && start.elapsed() < LIMIT;
        ensure!(early, "{request}\nanswered {answer}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// A llama.cpp server at a port of the page. The first use of llama.cpp installs it.
fn llamacpp(house: &House, made: &Made, folder: &Path, port: &str) -> anyhow::Result<Running> {
    let home = house.root.join(".venv/llamacpp");
    if model(&home).is_none() {
        let up = ["up", "--regions", "us", "--engine", "llamacpp", "--for", "1s"];
        let meridian = made.programs.path(&MERIDIAN);
        stdout_of(cmd(&house.root, meridian, &up)).context("llama.cpp is not installed")?;
    }
    let model = model(&home).with_context(|| format!("no model in {}", home.display()))?;
    let mut serve = cmd(&house.root, home.join("venv/bin/python"), &[]);
    serve.arg("lab/fleet/llamacpp/serve.py").arg(model);
    serve.args([port, "4", "8192", "--alias", MODEL]);
    Running::start(serve, &folder.join(format!("llamacpp-{port}.log")))
        .with_context(|| format!("is port {port} in use? {PAGE} names it"))
}

fn model(home: &Path) -> Option<PathBuf> {
    let files = std::fs::read_dir(home).ok()?.flatten().map(|file| file.path());
    files.into_iter().find(|path| path.extension().is_some_and(|end| end == "gguf"))
}

/// A command line as a user types it, in the new environment.
fn shell(folder: &Path, line: &str) -> Command {
    let mut command = cmd(folder, "sh", &["-c", line]);
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{}:{path}", folder.join("env/bin").display()));
    command
}

/// The first block of this language.
fn block<'a>(page: &'a str, language: &str) -> Option<&'a str> {
    let (_, rest) = page.split_once(&format!("```{language}\n"))?;
    rest.split_once("```").map(|(text, _)| text)
}

/// The commands of the page up to the first request, with continued lines joined.
fn commands(page: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut continues = false;
    for line in page.lines() {
        let typed = line.strip_prefix("$ ");
        if let Some(typed) = typed {
            if found.last().is_some_and(|last| last.starts_with("curl")) {
                break;
            }
            found.push(typed.to_owned());
        } else if let Some(last) = found.last_mut().filter(|_| continues) {
            *last += "\n";
            *last += line;
        }
        continues = (typed.is_some() || continues) && line.ends_with('\\');
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    // Prompts are commands, their continued lines belong to them, and printed lines do not.
    #[test]
    fn reads_the_commands_of_a_page() {
        let page = "$ a -c f\nprinted\n$ curl x \\\n    -d y\nHTTP\n$ later\n```yaml\nb: 1\n```\n";
        assert_eq!(commands(page), ["a -c f", "curl x \\\n    -d y"]);
        assert_eq!(block(page, "yaml"), Some("b: 1\n"));
    }
}
