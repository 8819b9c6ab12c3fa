//! Four hosts and a bridge, each in a network namespace; every link is shaped in both directions.
//!
//! A host's end of its link shapes what it sends, and the bridge's end what it receives, as the port of
//! a switch would. With classes both know collectives and KV by code point, by the rules of
//! `meridian flow qdisc`; without them both have one queue. Queues are bounded in bytes, and TCP's
//! shortest timer fits the link, since a switch with a few hundred KiB drops packets of an incast.

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context as _, ensure};
use meridian_cards::queues::{Classes, Kind, Rate, Shape, Tc};

use super::super::flows::HOSTS;
use crate::experiment::spec::{FlowTestbed, TestbedSystem};

/// The device of a host.
pub(super) const DEVICE: &str = "card0";
/// The bridge's namespace and device.
const SWITCH: &str = "switch";
/// The shares of KV and of unmarked traffic beside greedy collectives.
const FLOORS: [&str; 2] = ["10%", "5%"];
/// Leaves of the two classes, and of unmarked traffic.
const LEAVES: [&str; 3] = ["4d44:2", "4d44:7", "4d44:9"];
/// The longest packet that a host hands to its link: long ones would block a queue for milliseconds.
const LONGEST: u32 = 16_384;
/// The most bytes of a socket that wait in the kernel, where no gate orders them.
const SOCKET: u32 = 256 << 10;

/// The namespaces. They are removed when the value is dropped.
pub(super) struct Network {
    id: String,
}

impl Network {
    /// Makes the hosts and their links.
    ///
    /// # Errors
    /// Without root, `ip`, `tc` and `nft`, or a kernel with HTB.
    pub(super) fn new(spec: &FlowTestbed, system: &TestbedSystem) -> anyhow::Result<Network> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let nth = MADE.fetch_add(1, Ordering::Relaxed);
        let network = Network { id: format!("mfs{}-{nth}", std::process::id()) };
        network.bridge().context(NEEDS)?;
        for (at, host) in HOSTS.iter().enumerate() {
            network.host(at, host).context(NEEDS)?;
            let ends = [(network.name(host), DEVICE), (network.name(SWITCH), *host)];
            for (namespace, device) in ends {
                shape(&namespace, device, spec, system.classes).context(NEEDS)?;
            }
        }
        Ok(network)
    }

    /// The namespace of a host.
    pub(super) fn name(&self, host: &str) -> String {
        format!("{}-{host}", self.id)
    }

    /// The namespace of the bridge, and its address: a process there is one unshaped hop away.
    pub(super) fn switch(&self) -> (String, &'static str) {
        (self.name(SWITCH), "10.213.79.254")
    }

    pub(super) fn addresses(&self) -> BTreeMap<&'static str, String> {
        HOSTS.iter().enumerate().map(|(at, host)| (*host, address(at))).collect()
    }

    /// Bytes that each link has carried, each direction.
    pub(super) fn carried(&self) -> anyhow::Result<Vec<u64>> {
        let mut found = Vec::new();
        for host in HOSTS {
            let text = run("ip", &format!("-n {} -s -j link show {DEVICE}", self.name(host)))?;
            let links: serde_json::Value = serde_json::from_str(&text).context("ip -s -j link")?;
            for way in ["tx", "rx"] {
                found.push(links[0]["stats64"][way]["bytes"].as_u64().unwrap_or(0));
            }
        }
        Ok(found)
    }

    fn bridge(&self) -> anyhow::Result<()> {
        let (name, address) = self.switch();
        run("ip", &format!("netns add {name}"))?;
        run("ip", &format!("-n {name} link add {SWITCH} type bridge"))?;
        run("ip", &format!("-n {name} addr add {address}/24 dev {SWITCH}"))?;
        run("ip", &format!("-n {name} link set {SWITCH} up"))?;
        Ok(())
    }

    fn host(&self, at: usize, host: &str) -> anyhow::Result<()> {
        let (name, switch) = (self.name(host), self.name(SWITCH));
        run("ip", &format!("netns add {name}"))?;
        run("ip", &format!("-n {name} link set lo up"))?;
        let peer = format!("type veth peer name {host} netns {switch}");
        run("ip", &format!("-n {name} link add {DEVICE} {peer}"))?;
        let parts = LONGEST / 1448;
        for (namespace, device) in [(&name, DEVICE), (&switch, host)] {
            let limits = format!("gso_max_size {LONGEST} gso_max_segs {parts}");
            run("ip", &format!("-n {namespace} link set dev {device} {limits}"))?;
            run("ip", &format!("-n {namespace} link set dev {device} up"))?;
        }
        run("ip", &format!("-n {switch} link set dev {host} master {SWITCH}"))?;
        run("ip", &format!("-n {name} addr add {}/24 dev {DEVICE}", address(at)))?;
        run("ip", &format!("-n {name} route change 10.213.79.0/24 dev {DEVICE} rto_min 20ms"))?;
        let within = format!("netns exec {name} sysctl -qw");
        run("ip", &format!("{within} net.ipv4.tcp_notsent_lowat={}", SOCKET / 2))?;
        command("ip", &words(&within, &format!("net.ipv4.tcp_wmem=4096 65536 {SOCKET}")))?;
        // Mooncake marks no socket, so all that is not marked as a collective is KV.
        let chain = "{ type filter hook postrouting priority mangle ; }";
        for rule in [
            "add table ip marks".to_owned(),
            format!("add chain ip marks out {chain}"),
            "add rule ip marks out ip dscp != 43 ip dscp set 19".to_owned(),
        ] {
            command("ip", &words(&format!("netns exec {name} nft"), &rule))?;
        }
        Ok(())
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for host in HOSTS.into_iter().chain([SWITCH]) {
            // One that was never added cannot be removed.
            let _ = Command::new("ip").args(["netns", "del", &self.name(host)]).output();
        }
    }
}

/// The remedy of every failure here.
const NEEDS: &str = "the hosts need root, iproute2, nftables, and a kernel with network namespaces, \
                     veth, bridge, HTB and u32";

fn address(host: usize) -> String {
    format!("10.213.79.{}", host + 1)
}

/// Shapes what a device sends.
fn shape(
    namespace: &str,
    device: &str,
    spec: &FlowTestbed,
    with_classes: bool,
) -> anyhow::Result<()> {
    let tc = Tc::within(namespace);
    let limit = spec.queue.0;
    if with_classes {
        let rate: Rate = Rate::mbps(mbps(spec));
        let floors = [FLOORS[0].parse()?, FLOORS[1].parse()?];
        let rules = Shape::new(device, Kind::Htb, Classes::Two, Some(rate), floors)?;
        tc.apply(&rules, true)?;
        let leaf =
            |leaf: &&str| format!("qdisc add dev {device} parent {leaf} bfifo limit {limit}");
        tc.batch(device, &LEAVES.iter().map(leaf).collect::<Vec<_>>())?;
        return Ok(());
    }
    let commands = [
        format!("qdisc replace dev {device} root handle 1: htb default 1"),
        format!(
            "class add dev {device} parent 1: classid 1:1 htb rate {0}mbit ceil {0}mbit \
             burst 65664 cburst 65664 quantum 65664",
            mbps(spec)
        ),
        format!("qdisc add dev {device} parent 1:1 bfifo limit {limit}"),
    ];
    Ok(tc.batch(device, &commands)?)
}

pub(super) fn mbps(spec: &FlowTestbed) -> u64 {
    (spec.link.0 / 125e3) as u64
}

fn words(before: &str, last: &str) -> Vec<String> {
    before.split(' ').chain([last]).map(str::to_owned).collect()
}

fn run(program: &str, arguments: &str) -> anyhow::Result<String> {
    command(program, &arguments.split(' ').map(str::to_owned).collect::<Vec<_>>())
}

fn command(program: &str, arguments: &[String]) -> anyhow::Result<String> {
    let output = Command::new(program).args(arguments).output();
    let output = output.with_context(|| format!("{program}: cannot be started; install it"))?;
    let errors = String::from_utf8_lossy(&output.stderr);
    let line = arguments.join(" ");
    ensure!(output.status.success(), "{program} {line}: {}", errors.trim());
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
