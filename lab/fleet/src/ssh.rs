//! Commands on other hosts, by the `ssh` program.
//!
//! The user's own configuration of ssh decides about names, ports, users and keys. It never asks for
//! a password, as nothing could answer.

use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::{Error, Result};

/// Most bytes of a host's output that are kept.
const MOST_OUTPUT: u64 = 16 << 20;
/// Most bytes of an error that are shown.
const SHOWN: usize = 400;

/// A command that runs on a host while this value lives.
pub struct Running {
    child: Child,
}

impl Drop for Running {
    fn drop(&mut self) {
        // The other end's input ends with ssh, and with it the command.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a shell script on a host; its output.
///
/// # Errors
///
/// If ssh is missing, cannot log in, the script fails, or the time is over.
pub fn script(host: &str, script: &str, limit: Duration) -> Result<String> {
    let mut child = spawn(host, &["sh", "-s"])?;
    let (input, output, errors) = pipes(&mut child);
    let script = script.to_owned();
    let write = std::thread::spawn(move || {
        let mut input = input;
        // A host that refuses the login reads nothing; ssh's error says why.
        let _ = input.write_all(script.as_bytes());
    });
    let (output, errors) = (kept(output), kept(errors));
    let end = Instant::now() + limit;
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if Instant::now() < end => std::thread::sleep(Duration::from_millis(20)),
            Ok(None) => {
                let _ = child.kill();
                let _ = child.wait();
                let what = format!("it did not end within {limit:?}");
                return Err(error(host, what, "try the same `ssh` by hand, or give more time"));
            }
            Err(source) => return Err(error(host, source.to_string(), "try again")),
        }
    };
    let _ = write.join();
    let text = |end: std::thread::JoinHandle<Vec<u8>>| {
        String::from_utf8_lossy(&end.join().unwrap_or_default()).into_owned()
    };
    let (output, errors) = (text(output), text(errors));
    if status.success() {
        return Ok(output);
    }
    Err(error(host, format!("{status}: {}", last_of(&errors)), "try the same `ssh` by hand"))
}

/// Starts a command on a host and waits for the first line that it prints. The command gets `input`
/// and must end when its input ends.
///
/// # Errors
///
/// As for [`script`].
pub fn start(
    host: &str,
    command: &[&str],
    input: &str,
    limit: Duration,
) -> Result<(Running, String)> {
    let mut child = spawn(host, command)?;
    let (mut to, output, errors) = pipes(&mut child);
    let _ = to.write_all(input.as_bytes());
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut output = std::io::BufReader::new(output);
        let mut line = String::new();
        let _ = std::io::BufRead::read_line(&mut output.by_ref().take(4096), &mut line);
        let _ = sender.send(line);
        // The rest is thrown away, so that the command is never stopped by a full pipe.
        let _ = std::io::copy(&mut output, &mut std::io::sink());
    });
    let errors = kept(errors);
    // Its input stays open as long as the child has it.
    child.stdin = Some(to);
    let mut running = Running { child };
    match receiver.recv_timeout(limit) {
        Ok(line) if !line.trim().is_empty() => Ok((running, line.trim().to_owned())),
        Ok(_) => {
            let _ = running.child.wait();
            let errors = errors.join().unwrap_or_default();
            let what = last_of(&String::from_utf8_lossy(&errors));
            Err(error(host, what, "try the same command by hand"))
        }
        Err(_) => {
            let what = format!("`{}` printed nothing within {limit:?}", command.join(" "));
            Err(error(host, what, "try the same `ssh` by hand"))
        }
    }
}

fn spawn(host: &str, command: &[&str]) -> Result<Child> {
    // Anything else could be an option of ssh or a command of the remote shell.
    let plain = |c: char| c.is_ascii_alphanumeric() || "-._@:%[]".contains(c);
    if host.is_empty() || host.starts_with('-') || !host.chars().all(plain) {
        let remedy = "use a host, or user@host; ports and keys belong in ssh's configuration";
        return Err(Error::Setting {
            field: "--ssh",
            value: format!("{host:?}"),
            remedy: remedy.to_owned(),
        });
    }
    let mut ssh = Command::new("ssh");
    // A shared connection would outlive this process, with its output.
    let own = ["-o", "ControlMaster=no", "-o", "ControlPath=none"];
    ssh.args(["-T", "-o", "BatchMode=yes"]).args(own).args(["--", host]).args(command);
    ssh.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    ssh.spawn().map_err(|source| {
        error(host, format!("starting ssh: {source}"), "install the openssh-client")
    })
}

type Pipes = (std::process::ChildStdin, std::process::ChildStdout, std::process::ChildStderr);

fn pipes(child: &mut Child) -> Pipes {
    let input = child.stdin.take().expect("is piped");
    let output = child.stdout.take().expect("is piped");
    (input, output, child.stderr.take().expect("is piped"))
}

/// Reads to the end in a thread, up to the limit.
fn kept(from: impl Read + Send + 'static) -> std::thread::JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let (mut from, mut bytes) = (from, Vec::new());
        let _ = from.by_ref().take(MOST_OUTPUT).read_to_end(&mut bytes);
        let _ = std::io::copy(&mut from, &mut std::io::sink());
        bytes
    })
}

/// The end of an error output, on one line.
fn last_of(errors: &str) -> String {
    let text = errors.trim();
    let start = text.len().saturating_sub(SHOWN);
    let start = (start..=text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    let lines: Vec<&str> = text[start..].lines().map(str::trim).collect();
    if lines.is_empty() {
        return "without a message".to_owned();
    }
    lines.join(", ").chars().filter(|c| !c.is_control()).collect()
}

fn error(host: &str, what: String, remedy: &str) -> Error {
    Error::Ssh { host: host.to_owned(), what, remedy: remedy.to_owned() }
}
