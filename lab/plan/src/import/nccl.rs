//! One server from NCCL's topology dump (`NCCL_TOPO_DUMP_FILE`).
//!
//! The dump is a tree: `cpu` elements with a NUMA node each, `pci` elements below them, and in
//! these `gpu` elements (with `nvlink` children: target, count) and `nic` elements with `net`
//! children, whose `speed` is in Mb/s. The rest is ignored: a card's port counts as a card, and a
//! GPU's NVLink is the sum of its links.

use roxmltree::{Document, Node};

use crate::import::spec::{ServerSpec, TopologySpec, UnitSpec, VERSION};
use crate::import::{AccessSpec, smi};
use crate::problem::Problems;
use crate::units::Rate;

/// Reads a dump. It does not contain the GPUs' kind, which must be given.
///
/// # Errors
///
/// Missing or invalid elements of the dump.
pub fn from_nccl(xml: &str, gpu: &str) -> Result<TopologySpec, Problems> {
    let document = Document::parse(xml).map_err(|error| {
        Problems::one("nccl", error, "write it with NCCL_TOPO_DUMP_FILE=FILE and any NCCL program")
    })?;
    let all = |name: &'static str| {
        document.descendants().filter(move |node| node.has_tag_name(name)).collect::<Vec<_>>()
    };
    let gpus = all("gpu");
    let mut found = Problems(Vec::new());
    found.unless(!gpus.is_empty(), "nccl", "no <gpu>", "dump it on a server with GPUs");
    let nets = all("net");
    let mut rate = None;
    for net in &nets {
        let speed = net.attribute("speed").unwrap_or("none");
        let megabits = speed.parse::<f64>().ok().filter(|speed| *speed > 0.0);
        let remedy = "a port without a rate carries nothing; give Mb/s, or take it out of the dump";
        let name = net.attribute("name").unwrap_or("?");
        found.unless(megabits.is_some(), format!("net {name} speed"), speed, remedy);
        let one = megabits.unwrap_or(0.0) * 125e3;
        rate = Some(rate.map_or(one, |rate: f64| rate.min(one)));
    }
    let links: Vec<u32> = gpus.iter().map(|gpu| links(gpu, &mut found)).collect();
    found.or(())?;
    let nodes = |list: &[Node<'_, '_>]| list.iter().map(numa).collect::<Vec<u8>>();
    let slowest = links.iter().min().copied().unwrap_or(0);
    let server = ServerSpec {
        count: 1,
        name: None,
        hosts: Vec::new(),
        gpu: gpu.to_owned(),
        gpus: gpus.len() as u32,
        memory: None,
        nvlink: (slowest > 0).then(|| smi::nvlink(slowest)),
        pcie: None,
        socket: super::spec::socket(),
        numa: nodes(&gpus),
        cards: nets.len() as u32,
        card_rate: rate.map(Rate),
        card_numa: nodes(&nets),
    };
    let unit = UnitSpec { count: 1, access: AccessSpec::default(), servers: vec![server] };
    let name = "imported".to_owned();
    let spec = TopologySpec {
        version: VERSION,
        name,
        units: vec![unit],
        core: None,
        measured: Vec::new(),
    };
    Problems(spec.problems()).or(spec)
}

/// The NUMA node of the processor above.
fn numa(node: &Node<'_, '_>) -> u8 {
    node.ancestors()
        .find(|one| one.has_tag_name("cpu"))
        .and_then(|cpu| cpu.attribute("numaid")?.parse().ok())
        .unwrap_or(0)
}

/// NVLinks of a GPU, to switches or to other GPUs.
fn links(gpu: &Node<'_, '_>, found: &mut Problems) -> u32 {
    let mut sum = 0;
    for link in gpu.children().filter(|one| one.has_tag_name("nvlink")) {
        let text = link.attribute("count").unwrap_or("none");
        let count = text.parse::<u32>().ok().filter(|count| (1..=MOST_LINKS).contains(count));
        let field = format!("gpu {} nvlink count", gpu.attribute("dev").unwrap_or("?"));
        found.unless(count.is_some(), field, text, format!("use 1 to {MOST_LINKS}"));
        sum += count.unwrap_or(0);
    }
    sum
}

/// Most NVLinks to one neighbour; GPUs have 18.
const MOST_LINKS: u32 = 64;

#[cfg(test)]
mod tests {
    use super::*;

    const DUMP: &str = r#"<system version="1">
  <cpu numaid="0" affinity="0000ffff" arch="x86_64" vendor="GenuineIntel">
    <pci busid="0000:17:00.0" class="0x060400" link_speed="16.0 GT/s PCIe" link_width="16">
      <pci busid="0000:1a:00.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16">
        <gpu dev="0" sm="80" rank="0" gdr="1"><nvlink target="0000:c7:00.0" count="12" tclass="0x068000"/></gpu>
      </pci>
      <pci busid="0000:1b:00.0" class="0x020700" link_speed="16.0 GT/s PCIe" link_width="16">
        <nic><net name="mlx5_0" dev="0" speed="200000" port="1" guid="0x1" maxconn="131072" gdr="1"/></nic>
      </pci>
    </pci>
  </cpu>
  <cpu numaid="1" affinity="ffff0000" arch="x86_64" vendor="GenuineIntel">
    <pci busid="0000:b1:00.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16">
      <gpu dev="1" sm="80" rank="1" gdr="1"><nvlink target="0000:c7:00.0" count="12" tclass="0x068000"/></gpu>
    </pci>
  </cpu>
</system>"#;

    // GPUs, cards, NUMA nodes and NVLink's rate are read from the dump.
    #[test]
    fn a_dump_becomes_a_server() {
        let spec = from_nccl(DUMP, "a100").unwrap();
        let server = &spec.units[0].servers[0];
        assert_eq!((server.gpus, server.cards), (2, 1));
        assert_eq!((&server.numa[..], &server.card_numa[..]), (&[0, 1][..], &[0][..]));
        assert_eq!(server.nvlink, Some(Rate(300e9)));
        assert_eq!(server.card_rate, Some(Rate(25e9)));
    }

    // Without NVLink elements there is none; a port without a rate, a missing GPU or invalid XML is
    // reported.
    #[test]
    fn what_is_missing_is_said() {
        let plain = DUMP.replace("nvlink", "c2c");
        assert_eq!(from_nccl(&plain, "a100").unwrap().units[0].servers[0].nvlink, None);
        let error = |xml: &str| from_nccl(xml, "a100").unwrap_err().to_string();
        assert!(error(&DUMP.replace("200000", "-1")).starts_with("net mlx5_0 speed: -1;"));
        let silent = error(&DUMP.replace(" speed=\"200000\"", ""));
        assert!(silent.starts_with("net mlx5_0 speed: none; a port without a rate"), "{silent}");
        for count in ["-12", "4000000000", "twelve"] {
            let odd = error(&DUMP.replacen("count=\"12\"", &format!("count=\"{count}\""), 1));
            assert_eq!(odd, format!("gpu 0 nvlink count: {count}; use 1 to 64"));
        }
        for cut in [500, 600, 700, DUMP.len() - 9] {
            assert!(error(&DUMP[..cut]).starts_with("nccl: "), "{cut}");
        }
        assert!(error("<system/>").starts_with("nccl: no <gpu>;"));
        assert!(error("GPU0 GPU1").contains("NCCL_TOPO_DUMP_FILE"));
        let unknown = from_nccl(DUMP, "b300").unwrap_err().to_string();
        assert!(unknown.contains("b300; use "), "{unknown}");
    }
}
