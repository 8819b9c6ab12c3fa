//! The keeper: a shell that waits for this process to end, and then kills the whole fleet.
//!
//! A process that is killed with SIGKILL runs no destructor, and its children would survive. The
//! kernel does close its pipes. So the first process of a fleet is a shell that reads from a pipe
//! whose other end is in this process. When that end closes, for whatever reason, the shell kills
//! its own process group, which every process of the fleet has joined. A separate group also keeps
//! the terminal's Ctrl-C away from the children: the fleet ends them in its own order.

use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::{Error, Result};

/// Waits for the end of the process that holds the other end of its input.
///
/// If a process of the group is stopped at that moment, the kernel sends SIGHUP to all of them, as to any group that
/// has lost its parent. It must not end the shell before the folder is removed: the shell's first line says that it is
/// past that danger.
const WATCH: &str = "trap '' HUP; echo; read -r line; \
    [ -e \"$1/kept\" ] || rm -rf \"$1\" || rm -rf \"$1\"; kill -s KILL 0";

/// The owner of a fleet's process group.
#[derive(Debug)]
pub(crate) struct Keeper {
    shell: Child,
    group: Pid,
}

impl Keeper {
    /// Starts the shell, as the leader of a new process group.
    ///
    /// When this process dies without a word, the shell ends the others, and removes the run's folder `dir`
    /// unless that is marked to stay: it has keys.
    pub(crate) fn start(dir: &Path) -> Result<Keeper> {
        use std::os::unix::process::CommandExt;
        let failed =
            |source| Error::Start { name: "the keeper".into(), program: "/bin/sh".into(), source };
        let mut shell = Command::new("/bin/sh")
            .args(["-c", WATCH, "keeper"])
            .arg(dir)
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(failed)?;
        // On a busy machine this process could die before the shell has run a single command.
        let mut ready = shell.stdout.take().expect("it is piped");
        ready.read_exact(&mut [0]).map_err(failed)?;
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

#[cfg(test)]
mod tests {
    use super::*;

    // Defect command-line: the folder of a run, which has keys, goes with the run, however its process ends; a folder
    // that is kept for its logs stays.
    #[test]
    fn the_folder_goes_too() {
        for kept in [false, true] {
            let name = format!("meridian-keeper-{kept}-{}", std::process::id());
            let dir = std::env::temp_dir().join(name);
            std::fs::create_dir_all(dir.join("certs")).expect("makes folders");
            std::fs::write(dir.join(if kept { "kept" } else { "us.log" }), "").expect("writes");
            let mut keeper = Keeper::start(&dir).expect("starts a shell");
            // As the kernel does when this process is killed.
            drop(keeper.shell.stdin.take());
            keeper.shell.wait().expect("it ends");
            assert_eq!(dir.exists(), kept);
            let _ = std::fs::remove_dir_all(&dir);
        }
    }
}
