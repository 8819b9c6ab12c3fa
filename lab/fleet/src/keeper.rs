//! The keeper: a shell that waits for this process to end, and then kills the whole fleet.
//!
//! A process that is killed with SIGKILL runs no destructor, and its children would survive. The
//! kernel does close its pipes. So the first process of a fleet is a shell that reads from a pipe
//! whose other end is in this process. When that end closes, for whatever reason, the shell kills
//! its own process group, which every process of the fleet has joined. A separate group also keeps
//! the terminal's Ctrl-C away from the children: the fleet ends them in its own order.

use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::{Error, Result};

/// The owner of a fleet's process group.
#[derive(Debug)]
pub(crate) struct Keeper {
    shell: Child,
    group: Pid,
}

impl Keeper {
    /// Starts the shell, as the leader of a new process group.
    pub(crate) fn start() -> Result<Keeper> {
        use std::os::unix::process::CommandExt;
        let shell = Command::new("/bin/sh")
            .args(["-c", "read -r line; kill -s KILL 0"])
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|source| Error::Start {
                name: "the keeper".into(),
                program: "/bin/sh".into(),
                source,
            })?;
        let group = Pid::from_child(&shell);
        Ok(Keeper { shell, group })
    }

    /// The id of the group that every process of the fleet joins.
    pub(crate) fn group(&self) -> i32 {
        self.group.as_raw_nonzero().get()
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        // The shell is not reaped yet, so no other group can have its id.
        let _ = kill_process_group(self.group, Signal::KILL);
        let _ = self.shell.wait();
    }
}
