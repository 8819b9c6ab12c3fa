//! Servers in namespaces of their own, under one switch, on links of 100 Mb/s in each direction.

use std::process::Command;

/// The switch's namespace and device.
const SWITCH: &str = "switch";
const RATE: &str = "100mbit";
/// What a switch's port, or a card, holds before it drops: 50 ms.
const QUEUE: &str = "burst 32kb limit 600kb";

/// The namespaces. They are removed when the value is dropped.
pub(super) struct Network {
    id: String,
    servers: usize,
}

impl Network {
    pub(super) fn new(servers: usize) -> Network {
        let network = Network { id: format!("verify{}", std::process::id()), servers };
        let switch = network.switch();
        run("ip", &format!("netns add {switch}"));
        run("ip", &format!("-n {switch} link add {SWITCH} type bridge"));
        run("ip", &format!("-n {switch} link set {SWITCH} up"));
        run("ip", &format!("-n {switch} addr add 10.213.82.100/24 dev {SWITCH}"));
        (0..servers).for_each(|n| network.add(n));
        network
    }

    fn add(&self, n: usize) {
        let (name, switch) = (self.name(n), self.switch());
        run("ip", &format!("netns add {name}"));
        run("ip", &format!("-n {name} link set lo up"));
        run("ip", &format!("-n {name} link add card type veth peer name s{n} netns {switch}"));
        run("ip", &format!("-n {switch} link set s{n} master {SWITCH}"));
        run("ip", &format!("-n {switch} link set s{n} up"));
        run("ip", &format!("-n {name} addr add {}/24 dev card", self.address(n)));
        run("ip", &format!("-n {name} link set card up"));
        self.set_out(n, RATE);
        // The direction to the server is shaped where it leaves the switch.
        run("tc", &format!("-n {switch} qdisc replace dev s{n} root tbf rate {RATE} {QUEUE}"));
    }

    /// Sets the rate of a server's direction out.
    pub(super) fn set_out(&self, n: usize, rate: &str) {
        let name = self.name(n);
        run("tc", &format!("-n {name} qdisc replace dev card root tbf rate {rate} {QUEUE}"));
    }

    /// A server's namespace.
    pub(super) fn name(&self, n: usize) -> String {
        format!("{}-{n}", self.id)
    }

    /// The switch's namespace, which reaches all servers.
    pub(super) fn switch(&self) -> String {
        format!("{}-{SWITCH}", self.id)
    }

    pub(super) fn address(&self, n: usize) -> String {
        format!("10.213.82.{}", n + 1)
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        let servers = (0..self.servers).map(|n| self.name(n));
        for name in servers.chain([self.switch()]) {
            // One that was never added cannot be removed.
            let _ = Command::new("ip").args(["netns", "del", &name]).output();
        }
    }
}

fn run(program: &str, arguments: &str) {
    let output = Command::new(program).args(arguments.split(' ')).output();
    let output =
        output.unwrap_or_else(|error| panic!("cannot run {program}: {error}; install iproute2"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "`{program} {arguments}`: {errors}this test needs root, and a kernel with network \
         namespaces, veth, bridges and TBF"
    );
}
