//! Measured rates of single links, which a topology of equal servers can't express otherwise.

use serde::{Deserialize, Serialize};

use crate::problem::Problems;
use crate::topology::{LinkId, Topology};
use crate::units::Rate;

/// A link with its measured rate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MeasuredSpec {
    /// One direction of a link, as plans and reports name it: `gpu-a card 0 out`.
    pub link: String,
    /// Its rate in place of the datasheet's. Transfers reach 0.9 of a card's or an uplink's rate, so
    /// `plan verify` writes what it measured over 0.9.
    pub rate: Rate,
}

/// Checks that the links exist, each once, and that their rates are rates.
pub(super) fn check(all: &[MeasuredSpec], topology: &Topology, found: &mut Problems) {
    let mut known = std::collections::BTreeSet::new();
    for (at, one) in all.iter().enumerate() {
        let example = topology.servers().first().map_or("server", |server| &server.name);
        let remedy = format!(
            "use the name of a link of this topology, once; names are like `{example} card 0 out`"
        );
        let is_link = linked(topology, &one.link).is_some() && known.insert(&one.link);
        found.unless(is_link, format!("measured[{at}].link"), &one.link, remedy);
        let fits = one.rate.0 >= 1e3 && one.rate.0 <= 1e15;
        let remedy = "use 1KB/s or more; leave out a server whose link carries nothing";
        found.unless(fits, format!("measured[{at}].rate"), one.rate, remedy);
    }
}

/// The topology with the measured rates.
pub(super) fn applied(all: &[MeasuredSpec], topology: Topology) -> Topology {
    all.iter().fold(topology, |topology, one| match linked(&topology, &one.link) {
        Some(link) => topology.with_rate(link, one.rate.0),
        None => topology,
    })
}

/// The link of a name. Only those between servers are measured.
fn linked(topology: &Topology, name: &str) -> Option<LinkId> {
    (0..topology.link_count()).map(LinkId).find(|link| topology.link_text(*link) == name)
}

#[cfg(test)]
mod tests {
    use crate::TopologySpec;

    const YAML: &str = "version: 1
units:
- servers:
  - {count: 3, hosts: [left, right], gpu: l40s, gpus: 2, cards: 1, card_rate: 100Gb/s}
measured:
- {link: right card 0 in, rate: 4GB/s}
";

    // Hosts have their names, further servers are numbered, and a measured direction has its rate.
    #[test]
    fn hosts_and_their_measured_links() {
        let spec = TopologySpec::read(YAML).unwrap();
        assert_eq!(TopologySpec::read(&spec.print()).unwrap(), spec, "it reads as it prints");
        let topology = spec.build().unwrap();
        let names: Vec<&str> = topology.servers().iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["left", "right", "l40s-0"]);
        let rates = |way| [0, 1, 2].map(|at| topology.rate(topology.card(at, 0, way)));
        assert_eq!(rates(crate::Direction::In), [12.5e9, 4e9, 12.5e9]);
        assert_eq!(rates(crate::Direction::Out), [12.5e9; 3]);
    }

    // Names that do not fit, and links that do not exist, are errors with a remedy.
    #[test]
    fn wrong_names_are_named() {
        for (from, to, expected) in [
            (
                "right card 0 in",
                "right card 1 in",
                "measured[0].link: right card 1 in; use the name",
            ),
            ("4GB/s", "0B/s", "measured[0].rate: 0B/s; use 1KB/s or more"),
            ("[left, right]", "[left, left]", "servers[0].hosts: left; use a name once"),
            ("[left, right]", "[left, -x]", "servers[0].hosts: -x; use a name once"),
            ("count: 3", "count: 1", "servers[0].hosts: 2 names; give 1 or fewer"),
            ("- servers", "- count: 2\n  servers", "servers[0].hosts: in 2 units; only a unit"),
        ] {
            let error = TopologySpec::read(&YAML.replace(from, to)).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
