//! Computes the replicas that this gateway should have, from a view of the registry. Pure.
//!
//! Every gateway computes the same assignment (`meridian_base::assign`), and counts itself as
//! alive whatever the view says about it: it knows better.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use meridian_base::assign::{Serving, assign};
use meridian_protocol::address::authority;
use meridian_protocol::admin::AddReplica;
use meridian_protocol::registry::{Replica, Snapshot, Wanted};

/// A replica that this gateway should have.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Want {
    pub(super) name: String,
    pub(super) spec: AddReplica,
    /// Whether it finishes its requests and takes no new ones.
    pub(super) drains: bool,
    /// Its owner region, if that is another one.
    pub(super) adopted: Option<String>,
    pub(super) rtt: Duration,
}

/// A replica in the registry that this gateway should not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Away {
    /// Other gateways serve it: this gateway's requests there end first.
    Elsewhere,
    /// It is not part of the fleet any more.
    Removed,
}

/// The view's decision about every replica in it, by host and port.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Wants {
    pub(super) here: BTreeMap<String, Want>,
    pub(super) away: BTreeMap<String, Away>,
    pub(super) problems: BTreeSet<String>,
}

/// The decisions for the gateway `name` of `region`.
pub(super) fn wants(view: &Snapshot, name: &str, region: &str) -> Wants {
    let mut members = view.membership();
    members.gateways.insert(name.to_owned(), region.to_owned());
    let serving = assign(&members);
    let mut wants = Wants::default();
    for (replica, record) in &view.replicas {
        let Some(address) = authority(&record.spec.url) else {
            let url: String = record.spec.url.chars().take(200).collect();
            wants.problems.insert(format!("replica {replica}: `{url}` is not an address"));
            continue;
        };
        let serving = serving.get(replica).filter(|serving| serving.includes(&name.to_owned()));
        match serving {
            Some(serving) => {
                let want = want(view, region, replica, record, serving);
                if let Some(twin) = wants.here.get(&address) {
                    let twin = &twin.name;
                    wants.problems.insert(format!(
                        "replica {replica}: {address} is also replica {twin}; remove one"
                    ));
                } else {
                    wants.away.remove(&address);
                    wants.here.insert(address, want);
                }
            }
            None if wants.here.contains_key(&address) => {}
            None => {
                let away = if record.is_there() { Away::Elsewhere } else { Away::Removed };
                let known = wants.away.entry(address).or_insert(away);
                // If it is removed under one name and present under another, it is present.
                if away == Away::Elsewhere {
                    *known = away;
                }
            }
        }
    }
    wants
}

fn want(
    view: &Snapshot,
    here: &str,
    name: &str,
    record: &Replica,
    serving: &Serving<String>,
) -> Want {
    let region = view.regions.get(&record.region);
    let serves = region.is_none_or(|region| region.wanted == Wanted::Up);
    let (adopted, rtt) = match serving {
        Serving::Adopted { rtt, .. } => (Some(record.region.clone()), *rtt),
        Serving::Own(_) | Serving::NoGateway => (None, None),
    };
    // The record determines its region.
    let region = (record.region != here).then(|| record.region.clone());
    let (name_here, labels) = (Some(name.to_owned()), record.labels.clone());
    let spec = AddReplica { name: name_here, region, labels, ..record.spec.clone() };
    Want {
        name: name.to_owned(),
        spec,
        drains: record.wanted != Wanted::Up || !serves,
        adopted,
        rtt: rtt.unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(json: serde_json::Value) -> Snapshot {
        serde_json::from_value(json).unwrap()
    }

    /// eu has two replicas and a gateway, us a replica and the gateway under test.
    fn fleet() -> Snapshot {
        let replica = |region: &str, n: u32| serde_json::json!({"region": region, "spec": {"url": format!("http://10.0.0.{n}:80")}});
        let gateway =
            |region: &str| serde_json::json!({"region": region, "address": "x", "version": "1"});
        view(serde_json::json!({
            "store": "s", "revision": 1,
            "regions": {"us": {"rtt_ms": {"eu": 92.0}}, "eu": {}},
            "replicas": {"a": replica("eu", 1), "b": replica("eu", 2), "c": replica("us", 3)},
            "gateways": {"us-1": gateway("us"), "eu-1": gateway("eu")}
        }))
    }

    fn here(wants: &Wants) -> Vec<String> {
        let one = |want: &Want| {
            let sign = if want.drains { "-" } else { "" };
            let adopted = want.adopted.as_ref().map(|r| format!(" of {r}")).unwrap_or_default();
            format!("{sign}{}{adopted}", want.name)
        };
        wants.here.values().map(one).collect()
    }

    // A gateway has its own region's replicas. It has another region's replicas while that region
    // has no gateway, with their round trip, and gives them up when it has one again.
    #[test]
    fn adopts_and_hands_back() {
        let mut fleet = fleet();
        let before = wants(&fleet, "us-1", "us");
        assert_eq!(here(&before), ["c"]);
        assert_eq!(before.away.values().collect::<Vec<_>>(), [&Away::Elsewhere; 2]);
        let eu = fleet.gateways.remove("eu-1").unwrap();
        let adopted = wants(&fleet, "us-1", "us");
        assert_eq!(here(&adopted), ["a of eu", "b of eu", "c"]);
        let a = &adopted.here["10.0.0.1:80"];
        assert_eq!((a.rtt, a.spec.region.as_deref()), (Duration::from_millis(92), Some("eu")));
        assert_eq!(a.spec.name.as_deref(), Some("a"), "the registry's name is kept");
        assert_eq!(adopted.here["10.0.0.3:80"].spec.region, None);
        fleet.gateways.insert("eu-2".into(), eu);
        assert_eq!(wants(&fleet, "us-1", "us"), before);
    }

    // A gateway that the view does not contain, or no longer contains, counts itself.
    #[test]
    fn counts_itself() {
        let mut fleet = fleet();
        fleet.gateways.clear();
        assert_eq!(here(&wants(&fleet, "eu-9", "eu")), ["a", "b", "c of us"]);
    }

    // A replica drains if it or its region should drain. A removed one leaves, unless its address
    // is in the registry under another name.
    #[test]
    fn drains_and_removes() {
        let mut fleet = fleet();
        fleet.replicas.get_mut("a").unwrap().wanted = Wanted::Draining;
        assert_eq!(here(&wants(&fleet, "eu-1", "eu")), ["-a", "b"]);
        fleet.regions.get_mut("eu").unwrap().wanted = Wanted::Draining;
        assert_eq!(here(&wants(&fleet, "eu-1", "eu")), ["-a", "-b"]);
        fleet.replicas.get_mut("a").unwrap().wanted = Wanted::Removed;
        let removed = wants(&fleet, "eu-1", "eu");
        assert_eq!(
            (here(&removed), removed.away["10.0.0.1:80"]),
            (vec!["-b".into()], Away::Removed)
        );
        let again = fleet.replicas["b"].clone();
        let spec = fleet.replicas["a"].spec.clone();
        fleet.replicas.insert("z".into(), Replica { spec, ..again });
        assert_eq!(here(&wants(&fleet, "eu-1", "eu")), ["-z", "-b"]);
        assert_eq!(wants(&fleet, "us-1", "us").away["10.0.0.1:80"], Away::Elsewhere);
    }

    // Problems are reported and do not stop the rest.
    #[test]
    fn problems_are_reported() {
        let mut fleet = fleet();
        fleet.replicas.get_mut("a").unwrap().spec.url = "nowhere".into();
        let twin = fleet.replicas["b"].clone();
        fleet.replicas.insert("d".into(), twin);
        let wants = wants(&fleet, "eu-1", "eu");
        assert_eq!(here(&wants), ["b"]);
        let problems: Vec<_> = wants.problems.iter().map(String::as_str).collect();
        assert_eq!(
            problems,
            [
                "replica a: `nowhere` is not an address",
                "replica d: 10.0.0.2:80 is also replica b; remove one"
            ]
        );
    }
}
