use super::*;

const SHORT: &str = "
version: 1
routes:
  - {from: us, to: eu, target: 127.0.0.1:9001}
";

// The shortest configuration works: known regions have their delays, in both directions.
#[test]
fn known_regions_bring_their_delays() {
    let wan = Wan::read(SHORT).expect("is valid");
    let links = wan.all_links();
    let found: Vec<_> = links.iter().map(|l| (l.from.as_str(), l.to.as_str(), l.delay)).collect();
    let delay = Some(Span::millis(46));
    assert_eq!(found, [("us", "eu", delay), ("eu", "us", delay)]);
    assert_eq!(wan.routes[0].name(), "us-eu");
    // An odd round trip is not rounded.
    assert_eq!(known_delay("asia", "us"), Some(Span(std::time::Duration::from_micros(83_500))));
    assert_eq!(known_delay("us", "mars"), None);
}

// The printed form reads back as the same, whatever is set.
#[test]
fn prints_and_reads_back() {
    let yaml = "
version: 1
admin: 127.0.0.1:7000
buffer: 1MiB
connections: 10
seed: 7
window: {start: 2920B, most: 1MiB}
links:
  - {from: us, to: eu, delay: 40ms, jitter: 2ms, rate: 10MB/s}
  - {from: eu, to: mars, delay: 1s, rate: unlimited}
routes:
  - {name: far, from: us, to: eu, listen: 127.0.0.1:7001}
";
    let wan = Wan::read(yaml).expect("is valid");
    assert_eq!(wan.links[0].rate, Rate(std::num::NonZeroU64::new(10_000_000)));
    let printed = wan.print().expect("prints");
    assert_eq!(Wan::read(&printed).expect("reads back"), wan, "{printed}");
}

// All problems are reported at once, each with field, value and remedy.
#[test]
fn all_problems_at_once() {
    let yaml = "
version: 3
admin: 127.0.0.1:7000
buffer: 1KiB
connections: 0
window: {start: 10B, most: 5B}
links:
  - {from: us, to: us}
  - {from: us, to: eu, delay: 2h}
  - {from: us, to: eu}
  - {from: a b, to: mars}
routes:
  - {from: us, to: eu, listen: 127.0.0.1:7000, target: 127.0.0.1:0}
  - {from: us, to: eu, listen: 127.0.0.1:7002, target: 127.0.0.1:7002}
  - {from: mars, to: us}
";
    let problems = Wan::read(yaml).expect_err("cannot work").problems;
    for part in [
        "version: 3",
        "buffer: 1024B",
        "connections: 0",
        "window.start: 10B",
        "window.most: 5B is below",
        "links[0].to: us",
        "links[1].delay: 7200s",
        "links[2]: us to eu is also links[1]",
        "links[3].from: `a b`",
        "links[3].delay: is unknown",
        "routes[0].listen: 127.0.0.1:7000 is used twice",
        "routes[0].target: 127.0.0.1:0 has no port",
        "routes[1].name: us-eu is also the name of routes[0]",
        "routes[1].target: 127.0.0.1:7002 is the route itself",
        "routes[2]: the delay from mars to us is unknown",
        "routes[2]: the delay from us to mars is unknown",
    ] {
        assert!(
            problems.iter().any(|p| p.text.contains(part)),
            "{part} is missing in {problems:#?}"
        );
    }
    let error = Wan::read("version: 1\nroutes: []\n").expect_err("relays nothing").to_string();
    assert!(error.contains("routes: is empty"), "{error}");
}

// The errors about an unknown key and about a rate without its unit name the problem.
#[test]
fn strict_keys_and_units() {
    let error = Wan::read(&SHORT.replace("target", "tagret")).expect_err("is misspelt").to_string();
    assert!(error.contains("tagret"), "{error}");
    for rate in ["10MB", "0B/s", "fast"] {
        let yaml = format!("{SHORT}links:\n  - {{from: us, to: eu, rate: {rate}}}\n");
        let error = Wan::read(&yaml).expect_err("is not a rate").to_string();
        assert!(error.contains(&format!("`{rate}` is not a rate")), "{error}");
    }
}

// Requests to the admin port are read as strictly, and leave absent fields unchanged.
#[test]
fn set_link_forms() {
    let set: SetLink = serde_json::from_str(r#"{"delay":"80ms"}"#).expect("reads");
    assert_eq!(set, SetLink { delay: Some(Span::millis(80)), ..SetLink::default() });
    assert_eq!(serde_json::to_string(&set).expect("prints"), r#"{"delay":"80ms"}"#);
    assert!(serde_json::from_str::<SetLink>(r#"{"dealy":"80ms"}"#).is_err());
}
