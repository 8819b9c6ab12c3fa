//! Places get numbers once, and beyond what can be numbered only the free are served.

use meridian_wire::config::Gateway as Config;

use super::*;

/// What a file says, and which rules name acme's requests.
fn residency(yaml: &str) -> (Residency, Residence) {
    let text = format!("version: 1\nregion: us\ntenants: [{{name: acme}}]\nresidency:\n{yaml}");
    let given = Config::read(&text).expect("is valid").residency;
    let (residency, rules) = (Residency::new("us"), Rules::new(&given).expect("they are rules"));
    residency.given(&given, &rules);
    let subject = Subject { tenant: Some("acme"), labels: &NONE, model: "m", from: "us" };
    (residency, rules.residence(&subject, Vec::new()))
}

fn labels(name: &str, value: &str) -> Labels {
    Labels::from([(name.to_owned(), value.to_owned())])
}

const EU_ONLY: &str =
    "  rules: [{name: eu-only, tenants: [acme], run_in: [eu, jurisdiction=eu]}]\n";

// The own region is place 0; a place is told by its region and labels and keeps its number. What
// the registry says of a region counts from then on, unless the file speaks of it.
#[test]
fn places_and_labels() {
    let with_file = format!("  labels: {{ch: {{jurisdiction: ch}}}}\n{EU_ONLY}");
    let (residency, kept) = residency(&with_file);
    assert_eq!(residency.place(None, &NONE).1, 0);
    assert_eq!(residency.place(Some("eu"), &NONE), ("eu".to_owned(), 1));
    assert_eq!(residency.place(Some("de"), &NONE).1, 2);
    assert_eq!(residency.place(Some("ch"), &NONE).1, 3);
    assert_eq!(residency.place(None, &labels("jurisdiction", "eu")).1, 4);
    assert_eq!(residency.place(Some("eu"), &NONE).1, 1);
    assert_eq!(residency.places(&kept), 0b10010);
    let told = ["de", "ch"].map(|name| (name.to_owned(), labels("jurisdiction", "eu")));
    residency.tell(told.into());
    assert_eq!(residency.places(&kept), 0b10110);
    assert!(residency.permits_region(&kept, "de") && !residency.permits_region(&kept, "ch"));
    assert_eq!(residency.places(&Residence::default()), u64::MAX);
}

// Past the last number, a place is one where a rule permits nothing, even its own region.
#[test]
fn numbers_run_out() {
    let (residency, kept) = residency(EU_ONLY);
    for n in 1..u32::from(BEYOND) {
        assert_eq!(u32::from(residency.place(Some("eu"), &labels("rack", &n.to_string())).1), n);
    }
    let (_, beyond) = residency.place(Some("eu"), &labels("rack", "another"));
    assert_eq!(beyond, BEYOND);
    assert_eq!(residency.places(&kept), (1 << BEYOND) - 2);
    assert_eq!(residency.places(&kept) & 1 << beyond, 0);
}

// A peer's word on where it served is held against the rules; a place that a label permits is
// believed only of a peer that says it applied them.
#[test]
fn answers_are_audited() {
    let (residency, kept) = residency(EU_ONLY);
    let was = |region: &'static str, applied: &'static str| {
        let (region, applied) =
            (HeaderValue::from_static(region), HeaderValue::from_static(applied));
        residency.was_kept(&kept, Some(&region), Some(&applied))
    };
    assert!(was("eu", ""));
    assert!(!was("us", "") && !was("us", "another"));
    assert!(was("us", "another, eu-only"));
    assert!(!residency.was_kept(&kept, None, None));
    let text = refusal(&kept);
    assert!(text.contains("rule `eu-only` (in eu, jurisdiction=eu) permits"), "{text}");
    assert_eq!(names(&kept).expect("there is a rule"), "eu-only");
}
