//! Replicas join and leave a fleet; their ids, names and addresses.

use super::*;
use crate::replicas::drains::DrainReason;

fn spec(url: &str) -> AddReplica {
    AddReplica::at(url)
}

fn empty() -> Fleet {
    Fleet::new("eu", Arc::default(), CancellationToken::new())
}

// Ids are the lowest free ones. Duplicates and a full region are refused with the remedy.
#[test]
fn join_and_leave() {
    let fleet = empty();
    let join = |url| fleet.join(spec(url), Duration::ZERO, 2);
    let (a, b) = (join("http://a:1").expect("joins"), join("http://b:1").expect("joins"));
    assert_eq!((a.id.index(), b.id.index()), (0, 1));
    assert!(
        fleet
            .join(spec("http://a:1/"), Duration::ZERO, 3)
            .is_err_and(|e| e.to_string().contains("already"))
    );
    assert!(
        fleet
            .join(spec("http://c:1"), Duration::ZERO, 2)
            .is_err_and(|e| e.to_string().contains("limits.replicas"))
    );
    assert_eq!(fleet.at("A:1").map(|found| found.id), Some(a.id));
    assert!(fleet.leave(&a) && a.gone.is_cancelled() && fleet.at("a:1").is_none());
    assert!(!fleet.leave(&a));
    assert!(join("http://c:1").is_err(), "the machine does not know yet that r0 left");
    fleet.left(&a, Time::ZERO);
    let c = join("http://c:1").expect("joins");
    assert_eq!(c.id, ReplicaId(0));
    assert!(!fleet.leave(&a), "another replica has its id");
    assert!(!c.gone.is_cancelled() && fleet.leave(&c));
}

// A region name that no certificate and no digest can contain is refused with field, value and
// remedy.
#[test]
fn regions_are_names() {
    let fleet = empty();
    for bad in ["ap_south", "EU", "EU!", "\u{e9}", "", "a\nb"] {
        let spec = AddReplica { region: Some(bad.to_owned()), ..spec("http://a:1") };
        let error = fleet.join(spec, Duration::ZERO, 9).expect_err("is refused").to_string();
        assert!(error.starts_with(&format!("region: `{bad}` is not a name; use")), "{error}");
    }
    assert!(fleet.all().is_empty());
    let spec = AddReplica { region: Some("ap-south".to_owned()), ..spec("http://a:1") };
    assert!(fleet.join(spec, Duration::ZERO, 9).is_ok());
}

// The name of a replica that left is not reused and finds no other replica.
#[test]
fn names_are_not_given_again() {
    let fleet = empty();
    let join = |url| fleet.join(spec(url), Duration::ZERO, 9).expect("joins");
    let mut names = Vec::new();
    for url in ["http://a:1", "http://b:1", "http://c:1"] {
        let member = join(url);
        let name = member.name.to_string();
        assert_eq!((member.id, ReplicaName::id(&name)), (ReplicaId(0), Some(ReplicaId(0))));
        assert_eq!(fleet.named(&name).expect("is found").authority, member.authority);
        names.push(name);
        fleet.leave(&member);
        fleet.left(&member, Time::ZERO);
    }
    assert_eq!(names, ["r0", "r0.2", "r0.3"]);
    let last = join("http://d:1");
    assert!(names.iter().all(|name| fleet.named(name).is_none()), "they are gone");
    assert_eq!(fleet.named("0").expect("by its id").authority, last.authority);
}

// A decision's replica has the URL of the time of the decision, and none once it is forgotten.
#[test]
fn addresses_of_their_time() {
    let (fleet, id) = (empty(), ReplicaId(0));
    let join = |url| fleet.join(spec(url), Duration::ZERO, 9).expect("joins");
    for (ms, url) in [(10, "http://a:1"), (20, "http://b:1")] {
        let member = join(url);
        fleet.leave(&member);
        fleet.left(&member, Time::from_millis(ms));
    }
    join("http://c:1");
    let at = |ms| fleet.url(id, Time::from_millis(ms));
    assert_eq!([at(9), at(10)].map(Option::unwrap), ["http://a:1"; 2]);
    assert_eq!([at(11), at(20)].map(Option::unwrap), ["http://b:1"; 2]);
    assert_eq!(at(21).as_deref(), Some("http://c:1"));
    for n in 0..MOST_LEFT as u64 {
        let member = join("http://d:1");
        fleet.leave(&member);
        fleet.left(&member, Time::from_millis(30 + n));
    }
    assert_eq!((at(9), at(29)), (None, None));
    assert_eq!(at(5000).as_deref(), Some("http://c:1"));
}

/// A replica with a name.
fn named(url: &str, name: &str) -> AddReplica {
    AddReplica { name: Some(name.to_owned()), ..spec(url) }
}

// Defect replica-names: a replica keeps the name that it was given, in each place that shows one.
#[test]
fn given_names() {
    let fleet = empty();
    let join = |spec| fleet.join(spec, Duration::ZERO, 9).expect("joins");
    let first = join(spec("http://z:1"));
    let member = join(named("http://a:1", "eu-gpu-1"));
    assert_eq!((first.name.to_string(), member.name.to_string()), ("r0".into(), "eu-gpu-1".into()));
    assert_eq!(member.label, "eu-gpu-1");
    assert_eq!(fleet.named("eu-gpu-1").map(|found| found.id), Some(member.id));
    assert_eq!(fleet.named("1").map(|found| found.id), Some(member.id));
    assert!(fleet.named("r1").is_none(), "that is not its name");
    // It comes back under the same name, with another id.
    fleet.leave(&member);
    fleet.left(&member, Time::from_millis(5));
    join(spec("http://b:1"));
    let again = join(named("http://a:1", "eu-gpu-1"));
    assert_eq!((again.id, again.name.to_string()), (ReplicaId(2), "eu-gpu-1".into()));
    assert_eq!(fleet.called(ReplicaId(1), Time::from_millis(5)).as_deref(), Some("eu-gpu-1"));
    assert_eq!(fleet.called(ReplicaId(1), Time::from_millis(6)), None);
}

// A second replica with a name is refused in words, unless the first one is about to leave. No replica
// gets the name that another one was given.
#[test]
fn names_are_unlike() {
    let fleet = empty();
    let join = |spec| fleet.join(spec, Duration::ZERO, 9);
    let member = join(named("http://a:1", "a")).expect("joins");
    let error = join(named("http://b:1", "a")).expect_err("is refused").to_string();
    let says =
        "name: `a` is the name of http://a:1 here; give this one another, or remove that one first";
    assert_eq!(error, says);
    member.drains.add(DrainReason::Removed, || {});
    let next = join(named("http://b:1", "a")).expect("joins");
    assert_eq!(next.name.to_string(), "a.2");
    join(named("http://c:1", "r3")).expect("joins");
    assert_eq!(join(spec("http://d:1")).expect("joins").name.to_string(), "r3.2");
    assert!(join(named("http://e:1", "r3.2")).is_err());
    for bad in ["", "a b", "\u{e9}", "a\nb", &"x".repeat(64)] {
        let error = join(named("http://f:1", bad)).expect_err("is refused").to_string();
        assert!(error.contains("is not a replica's name; use 1 to 63 letters"), "{error}");
    }
}
