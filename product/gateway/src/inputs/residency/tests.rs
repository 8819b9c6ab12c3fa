//! Region data from the file and the registry, and the audit of answers.

use meridian_base::residency::{Labels, Place};
use meridian_config::Gateway as Config;
use meridian_protocol::peer::Identity;
use meridian_routing::Closed;

use super::*;

/// The knowledge from a file, and the rules that name acme's requests.
fn residency(yaml: &str) -> (Known, Residence) {
    let key = format!("sha256:{}", "0a".repeat(32));
    let tenants = format!("tenants: [{{name: acme, keys: ['{key}']}}]");
    let text = format!("version: 1\nregion: us\n{tenants}\nresidency:\n{yaml}");
    let config = Config::read(&text).expect("is valid");
    let rules = Rules::new(&config.residency).expect("they are rules");
    let known = Known::of(&config);
    let none = Labels::new();
    let subject = Subject { tenant: Some("acme"), labels: &none, model: "m", from: "us" };
    (known, rules.residence(&subject, Vec::new()))
}

const EU_ONLY: &str =
    "  rules: [{name: eu-only, tenants: [acme], run_in: [eu, jurisdiction=eu]}]\n";

// The registry's labels of a region count unless the file has some for it. The registry's regions,
// and the places of its replicas with their labels, are known places; removed ones are not.
#[test]
fn places_and_labels() {
    let with_file = format!("  labels: {{ch: {{jurisdiction: ch}}}}\n{EU_ONLY}");
    let (mut known, kept) = residency(&with_file);
    assert!(known.permits_region(&kept, "eu") && !known.permits_region(&kept, "de"));
    assert_eq!(known.atlas().places, [Place::region("us")].into());
    let view = serde_json::json!({
        "store": "s", "revision": 1,
        "regions": {"de": {"labels": {"jurisdiction": "eu"}}, "ch": {"labels": {"jurisdiction": "eu"}}},
        "replicas": {
            "a": {"region": "us", "spec": {"url": "http://10.0.0.1:80"}, "labels": {"rack": "1"}},
            "b": {"region": "eu", "spec": {"url": "http://10.0.0.2:80"}, "wanted": "removed"},
        },
        "gateways": {"asia-1": {"region": "asia", "address": "x", "version": "1"}},
    });
    known.registered(&serde_json::from_value(view).expect("is a view"));
    assert!(known.permits_region(&kept, "de") && !known.permits_region(&kept, "ch"));
    let rack = Labels::from([("rack".to_owned(), "1".to_owned())]);
    let mut places: Vec<_> = ["asia", "ch", "de", "us"].map(Place::region).into();
    places.push(Place { labels: rack, ..Place::region("us") });
    assert_eq!(known.atlas().places, places.into_iter().collect());
    let own = Labels::from([("jurisdiction".to_owned(), "eu".to_owned())]);
    assert!(known.permits(&kept, &Place { labels: own, ..Place::region("ch") }));
    assert!(known.permits_region(&Residence::default(), "mars"));
}

// Defect believed-places: an answer's place is its peer's region, or one that the peer may serve,
// whatever its head says. A place that only a label permits is accepted only from a peer that may
// have the label and says that it applied the rules.
#[test]
fn answers_are_audited() {
    let peers = "peers:
  ca: ca.pem
  certificate: c.pem
  key: k.pem
  gateways:
    - {name: ch-1, region: ch, address: 'ch:1', places: [jurisdiction=eu]}
    - {name: mx-1, region: mx, address: 'mx:1'}
";
    let (known, kept) = residency(&format!("{EU_ONLY}{peers}"));
    let was = |peer: &Identity, region: &'static str, applied: &'static str| {
        let (region, applied) =
            (HeaderValue::from_static(region), HeaderValue::from_static(applied));
        known.was_kept(&kept, peer, Some(&region), Some(&applied))
    };
    let peer = |region: &str| Identity::new("prod", region, &format!("{region}-1")).unwrap();
    let (eu, ch, mx) = (peer("eu"), peer("ch"), peer("mx"));
    assert!(was(&eu, "eu", ""));
    assert!(!was(&mx, "eu", "") && !was(&mx, "eu", "eu-only") && !was(&mx, "mx", "eu-only"));
    assert!(!was(&ch, "ch", "") && !was(&ch, "ch", "another"));
    assert!(was(&ch, "ch", "another, eu-only"));
    assert!(!known.was_kept(&kept, &eu, None, None));
    assert_eq!(names(&kept).expect("there is a rule"), "eu-only");
}

// Both refusals name the rules and their places; the temporary one says when to retry.
#[test]
fn refusals_name_the_rules() {
    let (_, kept) = residency(EU_ONLY);
    let second = std::time::Duration::from_secs(1);
    let (never, later) =
        (not_permitted(&kept), held_too_long(&kept, second * 10, second, Closed::default(), &[]));
    for refusal in [&never, &later] {
        let text = &refusal.message;
        assert!(text.contains("rule `eu-only` (in eu, jurisdiction=eu) permits"), "{text}");
    }
    assert_eq!((never.status.as_u16(), never.retry_after), (403, None));
    assert_eq!((later.status.as_u16(), later.retry_after), (503, Some(second)));
    assert_eq!(later.code, "held_too_long");
}

// Defect dead-region-words: if every permitted replica is down, the refusal says so, and not that
// there was no free capacity.
#[test]
fn an_outage_is_called_one() {
    let (_, kept) = residency(EU_ONLY);
    let second = std::time::Duration::from_secs(1);
    let down = Closed { down: 2, ..Closed::default() };
    let refusal = held_too_long(&kept, second, second, down, &[]);
    assert_eq!(refusal.code, "replicas_unavailable");
    assert!(refusal.message.contains("are down") && !refusal.message.contains("capacity"));
}
