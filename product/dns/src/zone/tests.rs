use super::*;

fn settings() -> Settings {
    let ns1 = vec!["198.51.100.1".parse().unwrap()];
    Settings {
        zone: "llm.example.org".to_owned(),
        nameservers: [("ns1".to_owned(), ns1)].into(),
        ..Settings::default()
    }
}

fn said(edit: impl FnOnce(&mut Settings)) -> Vec<String> {
    let mut settings = settings();
    edit(&mut settings);
    let made = Zone::new(&settings);
    made.map_or_else(|all| all.iter().map(ToString::to_string).collect(), |_| vec![])
}

// A label is a name inside the zone, a name with a dot is whole. The start of authority names the
// first server, and the contact as a name.
#[test]
fn names_of_servers() {
    let mut settings = settings();
    settings.zone = "LLM.Example.org.".to_owned();
    settings.nameservers.insert("ns2.example.net".to_owned(), vec![]);
    let zone = Zone::new(&settings).unwrap();
    let names: Vec<String> = zone.servers.iter().map(|server| server.name.to_ascii()).collect();
    assert_eq!(names, ["ns1.llm.example.org.", "ns2.example.net."]);
    assert_eq!(zone.name(), "llm.example.org.");
    assert_eq!(zone.soa.mname.to_ascii(), "ns1.llm.example.org.");
    assert_eq!(zone.soa.rname.to_ascii(), "hostmaster.llm.example.org.");
    assert_eq!((zone.ttl, zone.negative_ttl), (10, 5));
}

// Each field that can't be used is reported with its value and a remedy, all at once.
#[test]
fn problems_are_reported_at_once() {
    let empty = Settings { ttl: Duration::from_millis(1500), ..Settings::default() };
    let all: Vec<String> = Zone::new(&empty).unwrap_err().iter().map(ToString::to_string).collect();
    assert_eq!(
        all,
        [
            "zone: : missing; write the name that clients use, such as llm.example.org",
            "nameservers: none: missing; write the name servers of the zone, such as `ns1: \
             [198.51.100.1]`",
            "ttl: 1.5s: not a time to live; write whole seconds from 0 to 86400",
        ]
    );
}

// Names that can't be sent, with empty or long labels, spaces or letters outside ASCII.
#[test]
fn zones_that_are_not_names() {
    let bad = ["llm..example", "llm example", "bücher.example", &"a".repeat(64), "."];
    for zone in bad {
        let all = said(|settings| zone.clone_into(&mut settings.zone));
        assert!(all[0].starts_with(&format!("zone: {zone}: not a name; ")), "{all:?}");
    }
    let long = ["a".repeat(63), "b".repeat(63), "c".repeat(63)].join(".");
    let all = said(|settings| settings.zone = long);
    assert!(all[0].contains("too long; write at most 189 bytes"), "{all:?}");
}

// A server inside the zone needs addresses, one outside has its own, and none has the zone's name.
#[test]
fn servers_that_do_not_fit() {
    let named = |name: &str, addresses: &[&str]| {
        let addresses = addresses.iter().map(|ip| ip.parse().unwrap()).collect();
        let all = said(|settings| settings.nameservers = [(name.to_owned(), addresses)].into());
        all.join("\n")
    };
    assert_eq!(named("ns1.llm.example.org", &["192.0.2.1"]), "");
    assert_eq!(named("ns1.example.net", &[]), "");
    assert!(named("ns1", &[]).contains("ns1: no address: inside the zone; write its addresses"));
    assert!(named("ns.example.net", &["192.0.2.1"]).contains("192.0.2.1: outside the zone; write"));
    assert!(named("llm.example.org", &["192.0.2.1"]).contains("the name of the zone"));
    let twice = said(|settings| {
        let again = ("ns1.llm.example.org".to_owned(), vec!["192.0.2.1".parse().unwrap()]);
        settings.nameservers.extend([again]);
    });
    assert!(twice[0].contains("ns1.llm.example.org.: listed twice"), "{twice:?}");
    assert!(named("n s", &["192.0.2.1"]).contains("n s: not a name"));
}

// Times in whole seconds up to a day, and a contact with a person and a host.
#[test]
fn times_and_contacts() {
    assert_eq!(said(|settings| settings.ttl = Duration::ZERO), [""; 0]);
    let all = said(|settings| settings.negative_ttl = Duration::from_secs(86_401));
    assert!(all[0].starts_with("negative_ttl: 86401s: not a time to live"), "{all:?}");
    let contact = |text: &str| {
        let text = text.to_owned();
        said(move |settings| settings.contact = Some(text)).join("\n")
    };
    assert_eq!(contact("first.last@example.org"), "");
    assert!(contact("example.org").starts_with("contact: example.org: not a mail address"));
}
