//! Processes of `meridian` and folders that end with their test.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// A process of `meridian` that is killed at the end of its test.
pub(crate) struct Process {
    child: Child,
    pub(crate) address: String,
}

impl Process {
    pub(crate) fn start(args: &[&str]) -> Process {
        let mut command = Command::new(crate::programs::MERIDIAN);
        command.args(args).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("the binary runs");
        let mut line = String::new();
        let out = child.stdout.as_mut().expect("is piped");
        BufReader::new(out).read_line(&mut line).expect("it prints its address");
        let address = line.trim().strip_prefix("listening on http://").expect("it listens");
        Process { address: address.to_owned(), child }
    }

    /// Sends a request; returns the whole answer.
    pub(crate) fn ask(&self, body: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).expect("it accepts");
        let length = body.len();
        let head = format!(
            "POST /v1/chat/completions HTTP/1.1\r\nhost: gateway\r\nconnection: close\r\nx-session-id: s-1\r\ncontent-length: {length}\r\n\r\n{body}"
        );
        stream.write_all(head.as_bytes()).expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it answers");
        answer
    }

    /// Sends SIGTERM and waits for the end.
    pub(crate) fn terminate(&mut self) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args(["-TERM", &pid]).status().expect("kill runs");
        assert!(sent.success());
        assert!(self.child.wait().expect("it ends").success());
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A folder that is removed at the end of its test.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Folder {
        let folder = std::env::temp_dir().join(format!("meridian-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("the system has a folder for temporary files");
        Folder(folder)
    }

    /// The path of a file in it.
    pub(crate) fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
