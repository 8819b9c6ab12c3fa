//! Members in namespaces of their own, so that the links between them can be cut.
//!
//! A member has two links: one to the other members, over a bridge, and one to its clients. A member
//! whose first link is cut still answers clients, as one on the wrong side of a partition does.

use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The bridge's namespace and device.
const SWITCH: &str = "switch";

/// The namespaces. They are removed when the value is dropped.
pub(crate) struct Network {
    id: String,
    members: usize,
    /// The addresses are the same each time.
    _alone: MutexGuard<'static, ()>,
}

impl Network {
    pub(crate) fn new(members: usize) -> Network {
        static ONE: Mutex<()> = Mutex::new(());
        // A test that failed has removed its namespaces too.
        let alone = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        remove_left_over();
        let network = Network { id: format!("etcd{}", std::process::id()), members, _alone: alone };
        let switch = network.switch();
        ip(&format!("netns add {switch}"));
        ip(&format!("-n {switch} link add {SWITCH} type bridge"));
        ip(&format!("-n {switch} link set {SWITCH} up"));
        (0..members).for_each(|n| network.add(n));
        network
    }

    fn add(&self, n: usize) {
        let (name, switch, outer) = (self.name(n), self.switch(), self.outer(n));
        ip(&format!("netns add {name}"));
        ip(&format!("-n {name} link set lo up"));
        ip(&format!("-n {name} link add peers type veth peer name m{n} netns {switch}"));
        ip(&format!("-n {switch} link set m{n} master {SWITCH}"));
        ip(&format!("-n {switch} link set m{n} up"));
        ip(&format!("-n {name} addr add {}/24 dev peers", self.peer(n)));
        ip(&format!("-n {name} link set peers up"));
        ip(&format!("link add {outer} type veth peer name clients netns {name}"));
        ip(&format!("addr add 10.213.81.{}/30 dev {outer}", 4 * n + 1));
        ip(&format!("link set {outer} up"));
        ip(&format!("-n {name} addr add {}/30 dev clients", self.client(n)));
        ip(&format!("-n {name} link set clients up"));
    }

    /// A member's namespace.
    pub(crate) fn name(&self, n: usize) -> String {
        format!("{}-{n}", self.id)
    }

    fn switch(&self) -> String {
        format!("{}-{SWITCH}", self.id)
    }

    /// The clients' end of a member's link.
    fn outer(&self, n: usize) -> String {
        format!("{}c{n}", self.id)
    }

    /// A member's address for the others.
    pub(crate) fn peer(&self, n: usize) -> String {
        format!("10.213.80.{}", n + 1)
    }

    /// A member's address for clients.
    pub(crate) fn client(&self, n: usize) -> String {
        format!("10.213.81.{}", 4 * n + 2)
    }

    /// Cuts a member off the others, or mends that.
    pub(crate) fn cut_peers(&self, n: usize, is_cut: bool) {
        ip(&format!("-n {} link set m{n} {}", self.switch(), state(is_cut)));
    }

    /// Cuts a member off its clients, or mends that.
    pub(crate) fn cut_clients(&self, n: usize, is_cut: bool) {
        ip(&format!("link set {} {}", self.outer(n), state(is_cut)));
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        let members = (0..self.members).map(|n| self.name(n));
        for name in members.chain([self.switch()]) {
            // One that was never added cannot be removed.
            let _ = Command::new("ip").args(["netns", "del", &name]).output();
        }
    }
}

/// Removes namespaces of processes that were killed: their links have the same addresses.
fn remove_left_over() {
    let Ok(all) = std::fs::read_dir("/run/netns") else { return };
    for name in all.filter_map(|entry| entry.ok()?.file_name().into_string().ok()) {
        let id = name.strip_prefix("etcd").and_then(|rest| rest.split('-').next());
        let Some(id) = id.filter(|id| id.parse::<u32>().is_ok()) else { continue };
        assert!(
            !std::path::Path::new("/proc").join(id).exists()
                || id == std::process::id().to_string(),
            "process {id} may run this test, too, with the same addresses; if not: ip netns del {name}"
        );
        let _ = Command::new("ip").args(["netns", "del", &name]).output();
    }
}

fn state(is_cut: bool) -> &'static str {
    if is_cut { "down" } else { "up" }
}

fn ip(arguments: &str) {
    let output = Command::new("ip").args(arguments.split(' ')).output();
    let output = output.unwrap_or_else(|error| panic!("cannot run ip: {error}; install iproute2"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "`ip {arguments}`: {errors}this test needs root, and a kernel with network namespaces, veth \
         and bridges"
    );
}
