//! Other people's programs: where they are, and name servers that end with the test.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::sockets;
use crate::questions::{Family, ask};

/// Timeout for a name server to start.
const LIMIT: Duration = Duration::from_secs(60);

/// Where a program is.
///
/// # Panics
/// If it is not installed: what it would show can't be shown without it.
pub(crate) fn find(program: &str, package: &str) -> PathBuf {
    let path = std::env::var("PATH").unwrap_or_default();
    // Debian's users have no sbin in their path.
    let folders = path.split(':').chain(["/usr/sbin", "/usr/bin"]);
    let found = folders.map(|folder| Path::new(folder).join(program)).find(|path| path.exists());
    found.unwrap_or_else(|| panic!("{program} is missing: apt-get install {package}"))
}

/// A name server that runs until it is dropped, in a folder of its own.
pub(crate) struct Process {
    child: Child,
    folder: PathBuf,
    pub(crate) at: SocketAddr,
}

/// An empty folder.
pub(crate) fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("meridian-dns-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// A port that was free a moment ago.
pub(crate) fn free() -> SocketAddr {
    let (udp, _tcp) = sockets();
    SocketAddr::from((Ipv4Addr::LOCALHOST, udp.local_addr().unwrap().port()))
}

impl Process {
    /// Starts a program and waits until it answers a question.
    pub(crate) fn start(
        mut command: Command,
        folder: PathBuf,
        at: SocketAddr,
        name: &str,
    ) -> Process {
        let log = std::fs::File::create(folder.join("log")).unwrap();
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        let child = command.spawn().unwrap();
        let mut process = Process { child, folder, at };
        let start = Instant::now();
        while ask(at, name, Family::V4, None).is_none() {
            let ended = process.child.try_wait().unwrap();
            if ended.is_some() || start.elapsed() > LIMIT {
                let log = std::fs::read_to_string(process.folder.join("log")).unwrap_or_default();
                panic!("{command:?} does not answer: {ended:?}\n{log}");
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        process
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

// A missing program fails the tests that need it, with the command that installs it.
#[test]
#[should_panic(expected = "no-such-program is missing: apt-get install its-package")]
fn a_missing_program_is_named() {
    find("no-such-program", "its-package");
}
