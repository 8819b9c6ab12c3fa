//! A server that was started: the address where it listens, and its end.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};

/// A server that takes longer to start or to stop hangs.
const LIMIT: Duration = Duration::from_secs(60);

pub(crate) struct Running {
    child: Child,
    /// From its first line, `listening on http://ADDRESS`.
    pub(crate) address: String,
    log: PathBuf,
}

impl Running {
    /// Starts a server whose messages go to the log, and waits until it listens.
    pub(crate) fn start(mut command: Command, log: &Path) -> anyhow::Result<Running> {
        let file = std::fs::File::create(log).with_context(|| log.display().to_string())?;
        let name = format!("{command:?}");
        command.stdout(Stdio::piped()).stderr(file);
        let mut child = command.spawn().with_context(|| format!("cannot start {name}"))?;
        let stdout = child.stdout.take().context("stdout is piped")?;
        let (send, lines) = mpsc::channel();
        // The thread reads to the end, so that the server can always write.
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                let _ = send.send(line);
            }
        });
        let mut running = Running { child, address: String::new(), log: log.to_owned() };
        let line = lines.recv_timeout(LIMIT).unwrap_or_default();
        match line.strip_prefix("listening on http://") {
            Some(address) => address.clone_into(&mut running.address),
            None => bail!("{name} does not listen; it printed {line:?}\n{}", running.messages()),
        }
        Ok(running)
    }

    /// Its log so far.
    pub(crate) fn messages(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Sends SIGTERM; an error if the server does not end, or reports a failure.
    pub(crate) fn stop(mut self) -> anyhow::Result<()> {
        let id = self.child.id().to_string();
        let sent = Command::new("kill").args(["-TERM", &id]).status().context("kill")?;
        ensure!(sent.success(), "process {id} ended before SIGTERM: {}", self.messages());
        let start = Instant::now();
        while start.elapsed() < LIMIT {
            if let Some(status) = self.child.try_wait()? {
                ensure!(status.success(), "{status} after SIGTERM: {}", self.messages());
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        bail!("process {id} still runs after SIGTERM: {}", self.messages())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
