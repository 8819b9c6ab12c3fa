//! An etcd of processes, which tests kill, stop and restart.

use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::network::Network;
use crate::ports::free_port;

/// Timeout of everything that etcd does.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);
/// The remedy if the program is missing.
const MISSING: &str = "etcd is missing: apt-get install etcd-server etcd-client";

/// The members of one etcd.
pub(crate) struct Cluster {
    dir: PathBuf,
    members: Vec<Member>,
    /// Further arguments of each member.
    arguments: Vec<String>,
    /// Between `http` and `https`, towards clients.
    scheme: &'static str,
    /// If the members have links of their own.
    network: Option<Network>,
}

struct Member {
    name: String,
    client: SocketAddr,
    peer: SocketAddr,
    child: Option<Child>,
}

static CLUSTERS: AtomicU32 = AtomicU32::new(0);

impl Cluster {
    /// Starts `members` of them, and waits until they answer.
    pub(crate) fn start(members: usize, arguments: &[&str]) -> Cluster {
        Cluster::start_as("http", members, arguments)
    }

    /// With https to clients `arguments` name the certificates.
    pub(crate) fn start_as(scheme: &'static str, members: usize, arguments: &[&str]) -> Cluster {
        let local = || SocketAddr::from(([127, 0, 0, 1], free_port()));
        let addresses = (0..members).map(|_| [local(), local()]).collect();
        let mut cluster = Cluster::of(addresses);
        cluster.scheme = scheme;
        cluster.arguments = arguments.iter().map(|&a| a.to_owned()).collect();
        cluster.run()
    }

    /// Starts them with links that can be cut.
    pub(crate) fn start_apart(members: usize) -> Cluster {
        let network = Network::new(members);
        let at = |ip: String, port: u16| SocketAddr::new(ip.parse().unwrap(), port);
        let addresses =
            (0..members).map(|n| [at(network.client(n), 2379), at(network.peer(n), 2380)]);
        let mut cluster = Cluster::of(addresses.collect());
        cluster.network = Some(network);
        cluster.run()
    }

    /// Members with these addresses for clients and for each other.
    fn of(addresses: Vec<[SocketAddr; 2]>) -> Cluster {
        let number = CLUSTERS.fetch_add(1, Ordering::Relaxed);
        let dir =
            std::env::temp_dir().join(format!("meridian-etcd-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let member = |(n, [client, peer]): (usize, [SocketAddr; 2])| {
            let name = format!("e{n}");
            Member { name, client, peer, child: None }
        };
        let members = addresses.into_iter().enumerate().map(member).collect();
        Cluster { dir, members, arguments: Vec::new(), scheme: "http", network: None }
    }

    fn run(mut self) -> Cluster {
        (0..self.members.len()).for_each(|n| self.begin(n));
        self.whole();
        self
    }

    pub(crate) fn network(&self) -> &Network {
        self.network.as_ref().expect("it was started with links of its own")
    }

    /// The addresses for clients.
    pub(crate) fn endpoints(&self) -> Vec<String> {
        let at = |m: &Member| format!("{}://{}", self.scheme, m.client);
        self.members.iter().map(at).collect()
    }

    /// The section of a control plane's configuration.
    pub(crate) fn section(&self) -> String {
        format!("etcd:\n  endpoints: [{}]\n", self.endpoints().join(", "))
    }

    fn begin(&mut self, n: usize) {
        let all = |m: &Member| format!("{}=http://{}", m.name, m.peer);
        let all: Vec<String> = self.members.iter().map(all).collect();
        let member = &mut self.members[n];
        let client = format!("{}://{}", self.scheme, member.client);
        let peer = format!("http://{}", member.peer);
        let log = std::fs::File::create(self.dir.join(format!("{}.log", member.name))).unwrap();
        let mut command = match &self.network {
            Some(network) => {
                let mut command = Command::new("ip");
                command.args(["netns", "exec", &network.name(n), "setpriv"]);
                command
            }
            None => Command::new("setpriv"),
        };
        // It dies with the thread of its test.
        command.args(["--pdeathsig", "KILL", "etcd", "--name", &member.name]);
        command.arg("--data-dir").arg(self.dir.join(&member.name));
        command.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
        command.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
        command.args(["--initial-cluster", &all.join(",")]).args(&self.arguments);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        member.child = Some(command.spawn().expect(MISSING));
    }

    /// Waits until a member answers a linearizable read.
    fn wait(&self, n: usize) {
        let start = Instant::now();
        while !self.answers(n) {
            let log = || std::fs::read_to_string(self.dir.join(format!("e{n}.log")));
            assert!(start.elapsed() < LIMIT, "etcd does not answer: {}", log().unwrap_or_default());
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    fn answers(&self, n: usize) -> bool {
        if self.scheme == "https" {
            return TcpStream::connect(self.members[n].client).is_ok();
        }
        let endpoint = &self.endpoints()[n];
        self.ctl(&["--endpoints", endpoint, "--command-timeout=1s", "get", "x"]).is_ok()
    }

    /// Runs etcdctl; its output, or its error.
    pub(crate) fn ctl(&self, arguments: &[&str]) -> Result<String, String> {
        let mut command = Command::new("etcdctl");
        let out = command.env("ETCDCTL_API", "3").args(arguments).output().expect(MISSING);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if out.status.success() { Ok(text(&out.stdout)) } else { Err(text(&out.stderr)) }
    }

    /// The same with all members as endpoints.
    pub(crate) fn ctl_all(&self, arguments: &[&str]) -> Result<String, String> {
        let endpoints = self.endpoints().join(",");
        self.ctl(&[&["--endpoints", &endpoints], arguments].concat())
    }

    pub(crate) fn kill(&mut self, n: usize) {
        let mut child = self.members[n].child.take().expect("it runs");
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Starts a member that was killed, with its data, and does not wait for it.
    pub(crate) fn restart(&mut self, n: usize) {
        self.begin(n);
    }

    /// Waits until all members answer.
    pub(crate) fn whole(&self) {
        (0..self.members.len()).for_each(|n| self.wait(n));
    }

    /// `STOP` or `CONT`.
    pub(crate) fn signal(&self, n: usize, signal: &str) {
        let child = self.members[n].child.as_ref().expect("it runs");
        let sent =
            Command::new("kill").args([&format!("-{signal}"), &child.id().to_string()]).status();
        assert!(sent.unwrap().success());
    }

    /// The member that leads the others.
    pub(crate) fn leader(&self) -> usize {
        let start = Instant::now();
        loop {
            for n in 0..self.members.len() {
                let endpoint = &self.endpoints()[n];
                let status =
                    ["--endpoints", endpoint, "--command-timeout=1s", "endpoint", "status"];
                let said = self.ctl(&[&status[..], &["-w", "json"]].concat()).unwrap_or_default();
                let said: serde_json::Value = serde_json::from_str(&said).unwrap_or_default();
                let status = &said[0]["Status"];
                if status["leader"].is_u64() && status["leader"] == status["header"]["member_id"] {
                    return n;
                }
            }
            assert!(start.elapsed() < LIMIT, "no member leads");
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Restores a snapshot as the data of a stopped single member.
    pub(crate) fn restore(&mut self, snapshot: &str) {
        let member = &self.members[0];
        let data = self.dir.join(&member.name);
        std::fs::remove_dir_all(&data).unwrap();
        let peer = format!("http://{}", member.peer);
        let cluster = format!("{}={peer}", member.name);
        let data = data.display().to_string();
        let restored = self.ctl(&[
            "snapshot",
            "restore",
            snapshot,
            "--name",
            &member.name,
            "--data-dir",
            &data,
            "--initial-cluster",
            &cluster,
            "--initial-advertise-peer-urls",
            &peer,
        ]);
        restored.unwrap();
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for child in self.members.iter_mut().filter_map(|member| member.child.as_mut()) {
            let _ = child.kill();
            let _ = child.wait();
        }
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}
