//! Region data from the file and the registry, and the audit of answers.

use meridian_base::residency::{Labels, Place};
use meridian_config::Gateway as Config;

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

// The place that a peer reports is checked against the rules. A place that only a label permits is
// accepted only from a peer that says it applied the rules.
#[test]
fn answers_are_audited() {
    let (known, kept) = residency(EU_ONLY);
    let was = |region: &'static str, applied: &'static str| {
        let (region, applied) =
            (HeaderValue::from_static(region), HeaderValue::from_static(applied));
        known.was_kept(&kept, Some(&region), Some(&applied))
    };
    assert!(was("eu", ""));
    assert!(!was("us", "") && !was("us", "another"));
    assert!(was("us", "another, eu-only"));
    assert!(!known.was_kept(&kept, None, None));
    assert_eq!(names(&kept).expect("there is a rule"), "eu-only");
}

// Both refusals name the rules and their places; the temporary one says when to retry.
#[test]
fn refusals_name_the_rules() {
    let (_, kept) = residency(EU_ONLY);
    let second = std::time::Duration::from_secs(1);
    let (never, later) = (not_permitted(&kept), held_too_long(&kept, second * 10, second, &[]));
    for refusal in [&never, &later] {
        let text = &refusal.message;
        assert!(text.contains("rule `eu-only` (in eu, jurisdiction=eu) permits"), "{text}");
    }
    assert_eq!((never.status.as_u16(), never.retry_after), (403, None));
    assert_eq!((later.status.as_u16(), later.retry_after), (503, Some(second)));
}
