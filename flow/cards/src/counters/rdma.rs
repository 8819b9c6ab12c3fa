//! RDMA ports: their link, their rate, their network device and their counters.

use std::path::PathBuf;

use super::card::Source;
use super::sysfs::Sysfs;
use super::{Kind, Rate};

/// The bytes of a unit of an RDMA port's data counters.
const WORD: u64 = 4;

/// A port of an RDMA device.
#[derive(Clone, Debug)]
pub(super) struct Port {
    /// Device and port: `mlx5_0/1`.
    pub(super) name: String,
    /// The device alone.
    pub(super) device: String,
    /// Its kind, if no network device shares its cable; `None` on Ethernet.
    pub(super) alone: Option<Kind>,
    /// Whether its link is up.
    pub(super) is_up: bool,
    pub(super) rate: Option<Rate>,
    /// The network device of an Ethernet port.
    pub(super) netdev: Option<String>,
    /// Its counters of bytes; `None` without them.
    pub(super) source: Option<Source>,
}

/// All ports, by name.
pub(super) fn ports(sysfs: &Sysfs) -> Vec<Port> {
    let mut found = Vec::new();
    for device in sysfs.names("class/infiniband") {
        for port in sysfs.names(format!("class/infiniband/{device}/ports")) {
            found.push(one(sysfs, &device, &port));
        }
    }
    found
}

fn one(sysfs: &Sysfs, device: &str, port: &str) -> Port {
    let folder = PathBuf::from(format!("class/infiniband/{device}/ports/{port}"));
    let text = |name: &str| sysfs.text(folder.join(name));
    let paths = ["port_xmit_data", "port_rcv_data"].map(|name| folder.join("counters").join(name));
    let are_there = paths.iter().all(|path| sysfs.number(path).is_some());
    Port {
        name: format!("{device}/{port}"),
        device: device.to_owned(),
        alone: match text("link_layer").as_deref() {
            Some("Ethernet") => None,
            Some("InfiniBand") => Some(Kind::InfiniBand),
            _ => Some(Kind::Rdma),
        },
        is_up: text("state").is_none_or(|state| state.contains("ACTIVE")),
        rate: text("rate").and_then(|rate| Rate::of_port(&rate)),
        netdev: netdev(sysfs, device, port),
        source: are_there.then_some(Source::Files { paths, unit: WORD }),
    }
}

/// The network device of a port: that of its first address, else the one of the same PCI function
/// whose `dev_port` is the port, counted from 0.
fn netdev(sysfs: &Sysfs, device: &str, port: &str) -> Option<String> {
    let folder = format!("class/infiniband/{device}");
    let first = sysfs.text(format!("{folder}/ports/{port}/gid_attrs/ndevs/0"));
    first.or_else(|| {
        let place = port.parse::<u64>().ok()?.checked_sub(1)?;
        let all = sysfs.names(format!("{folder}/device/net"));
        let is_its = |name: &&String| {
            sysfs.number(format!("class/net/{name}/dev_port")).unwrap_or(0) == place
        };
        all.iter().find(is_its).cloned()
    })
}
