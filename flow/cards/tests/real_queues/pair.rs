//! Two namespaces and the link between them. Dropping the value removes them.

use std::fs::File;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use meridian_cards::queues::{Class, Classes, Kind, Shape, Tc, mark};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// The device in either namespace.
pub(crate) const DEVICE: &str = "card0";
/// Rate of the link.
pub(crate) const RATE: &str = "1Gbps";

pub(crate) struct Pair {
    names: [String; 2],
    /// One pair at a time: shares of a link say nothing where its senders lack a processor.
    _alone: MutexGuard<'static, ()>,
}

/// Addresses of the two ends.
pub(crate) const V4: [&str; 2] = ["10.213.78.1", "10.213.78.2"];
pub(crate) const V6: [&str; 2] = ["fd00:4d44::1", "fd00:4d44::2"];

impl Pair {
    pub(crate) fn new() -> Pair {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let id = format!("{}-{}", std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
        static ONE: Mutex<()> = Mutex::new(());
        let names = ["a", "b"].map(|end| format!("meridian-cards-{id}-{end}"));
        // A test that failed has removed its namespaces too.
        let alone = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        let pair = Pair { names, _alone: alone };
        let [a, b] = &pair.names;
        for name in [a, b] {
            run("ip", &format!("netns add {name}"));
        }
        run("ip", &format!("-n {a} link add {DEVICE} type veth peer name {DEVICE} netns {b}"));
        for (at, name) in pair.names.iter().enumerate() {
            let (v4, v6) = (V4[at], V6[at]);
            run("ip", &format!("-n {name} addr add {v4}/24 dev {DEVICE}"));
            run("ip", &format!("-n {name} addr add {v6}/64 dev {DEVICE} nodad"));
            run("ip", &format!("-n {name} link set {DEVICE} txqueuelen 1000 up"));
        }
        pair
    }

    /// The `tc` of the sender's namespace (0) or the receiver's (1).
    pub(crate) fn tc(&self, end: usize) -> Tc {
        Tc::within(&self.names[end])
    }

    /// Sets our rules at both ends, in place of any others.
    pub(crate) fn shape(&self, classes: Classes) {
        for end in 0..2 {
            self.tc(end).apply(&rules(classes), true).expect("the rules are set");
        }
    }

    /// A link of the same rate with one queue for everything: 1,000 packets of 1500 bytes.
    pub(crate) fn plain(&self) {
        let link = "tbf rate 1gbit burst 131072 limit 1500000";
        for name in &self.names {
            run("tc", &format!("-n {name} qdisc replace dev {DEVICE} root {link}"));
        }
    }

    pub(crate) fn run_tc(&self, command: &str) -> String {
        run("tc", &format!("-n {} {command}", self.names[0]))
    }

    /// A TCP connection from the first end to the second, marked by its sender.
    pub(crate) fn connect(&self, class: Option<Class>) -> (TcpStream, TcpStream) {
        let [near, far] = V4.map(|text| text.parse::<IpAddr>().expect("is an address"));
        let listener = self.at(1, || TcpListener::bind((far, 0))).expect("a port is free");
        let address = listener.local_addr().expect("it is bound");
        let sender = self.at(0, || TcpStream::connect(address)).expect("the link is up");
        assert_eq!(sender.local_addr().expect("it is open").ip(), near);
        if let Some(class) = class {
            mark(&sender, class).expect("it is an IP socket");
        }
        (sender, listener.accept().expect("it was opened").0)
    }

    /// A UDP socket of the first end, and an address at the second.
    pub(crate) fn datagrams(&self, ends: [&str; 2]) -> (UdpSocket, SocketAddr) {
        let [near, far] = ends.map(|text| text.parse::<IpAddr>().expect("is an address"));
        // A refused connection has resolved the other end's address, so no datagram waits for it.
        let refused = self.at(0, || TcpStream::connect((far, 9))).expect_err("nothing listens");
        assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused, "{refused}");
        let socket = self.at(0, || UdpSocket::bind((near, 0))).expect("the address is there");
        (socket, SocketAddr::new(far, 9))
    }

    /// Runs `make` in a namespace: sockets stay in the one that they were made in.
    fn at<T: Send>(&self, end: usize, make: impl FnOnce() -> T + Send) -> T {
        let file = File::open(format!("/run/netns/{}", self.names[end])).expect("it was added");
        let inside = move || {
            move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))
                .expect("root may enter it");
            make()
        };
        std::thread::scope(|scope| scope.spawn(inside).join()).expect("does not panic")
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        for name in &self.names {
            // One that was never added cannot be removed.
            let _ = Command::new("ip").args(["netns", "del", name]).output();
        }
    }
}

/// The rules of the tests: the floor and the share of unmarked traffic are the command's defaults.
pub(crate) fn rules(classes: Classes) -> Shape {
    let shares = ["10%", "5%"].map(|share| share.parse().expect("is a share"));
    let rate = Some(RATE.parse().expect("is a rate"));
    Shape::new(DEVICE, Kind::Htb, classes, rate, shares).expect("is possible")
}

fn run(program: &str, arguments: &str) -> String {
    let output = Command::new(program)
        .args(arguments.split(' '))
        .output()
        .unwrap_or_else(|error| panic!("cannot run `{program}`: {error}; install iproute2"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "`{program} {arguments}`: {errors}this test needs root, and a kernel with network \
         namespaces, veth, HTB, TBF and u32"
    );
    String::from_utf8(output.stdout).expect("it prints text")
}
