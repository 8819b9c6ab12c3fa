//! Two network namespaces with a delay between them. Dropping the value removes them.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, bail};
use meridian_fleet::{Fleet, Process};

/// Addresses of the two ends.
pub(super) const HERE: &str = "10.213.77.1";
pub(super) const THERE: &str = "10.213.77.2";

/// Kernel settings for long connections (docs/regions.md), and the same congestion control on every
/// machine.
const SETTINGS: [&str; 4] = [
    "net.ipv4.tcp_congestion_control=cubic",
    "net.ipv4.tcp_slow_start_after_idle=0",
    "net.ipv4.tcp_wmem=4096 65536 16777216",
    "net.ipv4.tcp_rmem=4096 131072 16777216",
];

/// Packets that a device buffers for the bridge: a burst of 1 MB exceeds the default 500, and the
/// rest would be lost.
const QUEUE: &str = "20000";

/// Two existing namespaces.
pub(super) struct Spaces {
    /// The names of the namespaces.
    pub(super) names: [String; 2],
    devices: [String; 2],
}

impl Spaces {
    /// Creates them.
    ///
    /// # Errors
    ///
    /// When the kernel or the user's rights do not allow it.
    pub(super) fn make() -> anyhow::Result<Spaces> {
        let id = std::process::id();
        let named = |part: &str| format!("meridian-{id}-{part}");
        let spaces = Spaces {
            names: [named("a"), named("b")],
            devices: [format!("mrd{id}a"), format!("mrd{id}b")],
        };
        for name in &spaces.names {
            ip(&["netns", "add", name])
                .context("network namespaces cannot be made here: run it as root, on a kernel with network namespaces")?;
            within(name, &["ip", "link", "set", "lo", "up"])?;
        }
        Ok(spaces)
    }

    /// Starts the bridge and gives each namespace one of its ends.
    ///
    /// # Errors
    /// When the kernel or the user's rights do not allow it.
    pub(super) async fn join(&self, fleet: &Fleet, delay: Duration) -> anyhow::Result<Process> {
        let [a, b] = &self.devices;
        let delay = format!("{}ms", delay.as_secs_f64() * 1e3);
        let args = ["bench", "bridge", a, b, "--delay", &delay];
        let bridge = fleet.meridian("bridge", args, &["bridge of "]).await?;
        for ((space, device), (own, other)) in
            self.names.iter().zip(&self.devices).zip([(HERE, THERE), (THERE, HERE)])
        {
            ip(&["link", "set", device, "netns", space])?;
            within(space, &["ip", "addr", "add", own, "peer", other, "dev", device])?;
            within(space, &["ip", "link", "set", device, "txqueuelen", QUEUE, "up"])?;
            for setting in SETTINGS {
                within(space, &["sysctl", "-qw", setting])?;
            }
        }
        Ok(bridge)
    }
}

impl Drop for Spaces {
    fn drop(&mut self) {
        for name in &self.names {
            // A namespace that was never created cannot be removed.
            let _ = Command::new("ip").args(["netns", "del", name]).output();
        }
    }
}

fn within(space: &str, command: &[&str]) -> anyhow::Result<()> {
    ip(&[&["netns", "exec", space], command].concat())
}

fn ip(args: &[&str]) -> anyhow::Result<()> {
    let shown = args.join(" ");
    let output = Command::new("ip")
        .args(args)
        .output()
        .with_context(|| format!("cannot run `ip {shown}`; install iproute2"))?;
    if !output.status.success() {
        bail!("`ip {shown}`: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}
