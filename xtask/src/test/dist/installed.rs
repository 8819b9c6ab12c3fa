//! The programs of a package: their command lines, and a request through a gateway.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};

use crate::cmd::stdout_of;
use crate::dist::programs::{BOTH, LAB, MERIDIAN, Program};
use crate::running::Running;

const MODEL: &str = "llama-3.1-8b";
/// In `packaging/gateway.yaml`: the address of the engine, and those of the gateway.
const ENGINE: &str = "http://127.0.0.1:8000";
const LISTENS: [&str; 2] = ["127.0.0.1:8080", "127.0.0.1:8081"];
/// A gateway that gives no answer in this time has failed.
const LIMIT: Duration = Duration::from_secs(60);

pub(super) struct Installed {
    /// The command line in front of a program, if the program does not start by itself.
    pub(super) front: Vec<String>,
    /// The folder of the programs, as that command line sees it.
    pub(super) bin: String,
    /// Whether `meridian` can start `meridian-lab`.
    pub(super) finds_lab: bool,
    /// A folder for files and logs, as it is called here.
    pub(super) folder: PathBuf,
    /// The same folder as the program sees it.
    pub(super) inside: PathBuf,
}

impl Installed {
    /// Programs that see the same files as this one.
    pub(super) fn here(bin: &Path, folder: &Path) -> anyhow::Result<Installed> {
        let bin = bin.to_str().context("the checkout's path is not text")?.to_owned();
        let (folder, inside) = (folder.to_owned(), folder.to_owned());
        Ok(Installed { front: Vec::new(), bin, finds_lab: true, folder, inside })
    }

    /// A program with these arguments, without the environment of this one: cargo's libraries are
    /// in it.
    pub(super) fn call(&self, program: &Program, args: &[&str]) -> Command {
        let program = format!("{}/{}", self.bin, program.name);
        let words: Vec<&String> = self.front.iter().chain([&program]).collect();
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).args(args).stdin(Stdio::null());
        command.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        command
    }

    /// A command of the laboratory as a user types it: `meridian` starts `meridian-lab`.
    fn call_lab(&self, args: &[&str]) -> Command {
        self.call(if self.finds_lab { &MERIDIAN } else { &LAB }, args)
    }

    /// Ensures that both programs start and are of this version.
    pub(super) fn are_version(&self, version: &str) -> anyhow::Result<()> {
        for program in &BOTH {
            let printed = stdout_of(self.call(program, &["--version"]))?;
            let wanted = format!("{} {version} (", program.name);
            ensure!(printed.starts_with(&wanted), "--version prints {printed:?}, not {wanted}...");
        }
        Ok(())
    }

    /// Checks the example configuration and serves with it: a gateway in front of a model engine
    /// answers a request and ends at SIGTERM. The engine is a command of the laboratory.
    pub(super) fn serves(&self, example: &str) -> anyhow::Result<()> {
        self.check(example)?;
        let engine = ["engine", "--model", MODEL, "--gpu", "l4", "--time-scale", "100"];
        let engine = Running::start(self.call_lab(&engine), &self.folder.join("engine.log"))?;
        let mut config = example.replace(ENGINE, &format!("http://{}", engine.address));
        ensure!(config != example, "the example configuration lacks {ENGINE}");
        for address in LISTENS {
            ensure!(config.contains(address), "the example configuration lacks {address}");
            config = config.replace(address, "127.0.0.1:0");
        }
        let seen = self.check(&config)?;
        let gateway = self.call(&MERIDIAN, &["gateway", "-c", &seen]);
        let gateway = Running::start(gateway, &self.folder.join("gateway.log"))?;
        let answer = answer(&gateway.address)
            .with_context(|| format!("the gateway's log: {}", gateway.messages()))?;
        ensure!(answer.contains("text_completion"), "no completion: {answer}");
        gateway.stop()?;
        engine.stop()
    }

    /// Writes a configuration and runs `meridian check` on it; its path as the program sees it.
    fn check(&self, config: &str) -> anyhow::Result<String> {
        let file = self.folder.join("gateway.yaml");
        std::fs::write(&file, config).with_context(|| file.display().to_string())?;
        let seen = self.inside.join("gateway.yaml").display().to_string();
        stdout_of(self.call(&MERIDIAN, &["check", "-c", &seen]))?;
        Ok(seen)
    }
}

/// Sends requests until the gateway has found its replica; the answer with status 200.
fn answer(address: &str) -> anyhow::Result<String> {
    let start = Instant::now();
    loop {
        let answer = ask(address)?;
        if answer.starts_with("HTTP/1.1 200 ") {
            return Ok(answer);
        }
        let early = answer.starts_with("HTTP/1.1 503 ") && start.elapsed() < LIMIT;
        ensure!(early, "the gateway answered {answer}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// One request over a connection of its own; the whole answer.
fn ask(address: &str) -> anyhow::Result<String> {
    let body = format!(r#"{{"model": "{MODEL}", "prompt": "hello", "max_tokens": 4}}"#);
    let head = "POST /v1/completions HTTP/1.1\r\nHost: meridian\r\nConnection: close\r\n";
    let head = format!("{head}Content-Type: application/json\r\nContent-Length: {}", body.len());
    let mut stream = TcpStream::connect(address).with_context(|| format!("at {address}"))?;
    stream.set_read_timeout(Some(LIMIT))?;
    write!(stream, "{head}\r\n\r\n{body}")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).context("the answer ends early")?;
    Ok(answer)
}
