//! Runs a program, forwards its output line by line, and kills it after a timeout.
//!
//! The timeout applies if no terminal is attached: there a hung program would block the machine,
//! and its output would be lost. At a terminal the user can interrupt it, and the program stays in
//! the terminal's group so that the interrupt reaches it.

use std::io::{BufRead as _, BufReader, IsTerminal as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use anyhow::Context as _;

/// Runs the command and forwards each line of its stdout; an error after the timeout.
pub(crate) fn run(
    mut command: Command,
    limit: Duration,
    mut each: impl FnMut(&str),
) -> anyhow::Result<ExitStatus> {
    let alone = !std::io::stdin().is_terminal();
    if alone {
        command.process_group(0);
    }
    let name = command.get_program().to_string_lossy().into_owned();
    let mut child = command.stdout(Stdio::piped()).spawn().with_context(|| name.clone())?;
    let deadline = alone.then(|| Instant::now() + limit);
    let lines = lines_of(&mut child);
    loop {
        match next(&lines, deadline) {
            Ok(line) => each(&line),
            Err(RecvTimeoutError::Disconnected) => return Ok(child.wait()?),
            Err(RecvTimeoutError::Timeout) => {
                end_group(&mut child)?;
                anyhow::bail!("{name} was ended after {:.0} minutes", limit.as_secs_f64() / 60.0);
            }
        }
    }
}

/// A thread reads, so that waiting for a line can time out.
fn lines_of(child: &mut Child) -> Receiver<String> {
    let stdout = child.stdout.take().expect("stdout is piped");
    let (send, lines) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stdout).split(b'\n').map_while(Result::ok) {
            if send.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                break;
            }
        }
    });
    lines
}

fn next(lines: &Receiver<String>, deadline: Option<Instant>) -> Result<String, RecvTimeoutError> {
    match deadline {
        Some(deadline) => lines.recv_timeout(deadline.saturating_duration_since(Instant::now())),
        None => lines.recv().map_err(|_| RecvTimeoutError::Disconnected),
    }
}

/// Kills the child's process group, which contains everything it has started.
fn end_group(child: &mut Child) -> anyhow::Result<()> {
    let group = format!("-{}", child.id());
    Command::new("kill").args(["-KILL", "--", &group]).status().context("kill")?;
    child.wait()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdin(Stdio::null());
        command
    }

    // Lines arrive in order and the exit status is the program's.
    #[test]
    fn passes_lines_and_status_on() {
        let mut seen = Vec::new();
        let script = sh("echo a; echo b; exit 3");
        let status = run(script, Duration::from_secs(60), |line| seen.push(line.to_owned()));
        assert_eq!(seen, ["a", "b"]);
        assert_eq!(status.unwrap().code(), Some(3));
    }
}
