//! `dig` as a client: what operators see.

use std::net::SocketAddr;
use std::process::Command;

use crate::common::{ours, state};
use crate::processes::find;

const CLIENTS: &str = "10.1.0.0/16 eu\n10.1.7.0/24 us\n127.0.0.0/8 ap\n2001:db8:1::/48 eu";

/// The answer in `dig`'s words.
struct Seen {
    text: String,
}

impl Seen {
    fn has(&self, what: &str) -> bool {
        self.text.contains(what)
    }

    /// The data of the records in the answer section, sorted.
    fn answers(&self) -> Vec<&str> {
        let section = self.text.split(";; ANSWER SECTION:\n").nth(1).unwrap_or_default();
        let lines = section.lines().take_while(|line| !line.is_empty());
        let mut data: Vec<&str> = lines.filter_map(|line| line.split_whitespace().last()).collect();
        data.sort_unstable();
        data
    }
}

fn dig(at: SocketAddr, args: &str) -> Seen {
    let mut command = Command::new(find("dig", "dnsutils"));
    command.arg(format!("@{}", at.ip())).args(["-p", &at.port().to_string()]);
    command.args(["-r", "+tries=1", "+time=5", "+norecurse"]).args(args.split(' '));
    let output = command.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{args}: {text}");
    // It says so if an answer breaks the protocol.
    for complaint in ["WARNING", "Warning", "malformed", "mismatch"] {
        assert!(!text.contains(complaint), "{args}: {text}");
    }
    Seen { text }
}

const EU: [&str; 2] = ["192.0.2.1", "192.0.2.2"];

// A subnet comes back with its scope; without one the client's own address counts, as with the
// subnet 0.
#[test]
fn dig_sees_the_clients_region() {
    let at = ours(state(CLIENTS));
    let seen = dig(at, "llm.example.org A +subnet=10.1.128.0/24");
    assert!(seen.has("status: NOERROR") && seen.has("flags: qr aa; QUERY: 1, ANSWER: 2"));
    assert!(seen.has("CLIENT-SUBNET: 10.1.128.0/24/17"), "{}", seen.text);
    assert_eq!(seen.answers(), EU);
    let seen = dig(at, "llm.example.org AAAA +subnet=2001:db8:1::/56");
    assert!(seen.has("CLIENT-SUBNET: 2001:db8:1::/56/48"), "{}", seen.text);
    assert_eq!(seen.answers(), ["2001:db8:e::1"]);
    for args in ["llm.example.org A", "llm.example.org A +noedns", "llm.example.org A +subnet=0"] {
        assert_eq!(dig(at, args).answers(), ["203.0.113.1", "203.0.113.2"], "{args}");
    }
    let hidden = dig(at, "llm.example.org A +subnet=0");
    assert!(hidden.has("CLIENT-SUBNET: 0.0.0.0/0/0"), "{}", hidden.text);
}

// The zone's own records, a region's name, both kinds of negative answers and refusals, over both
// transports.
#[test]
fn dig_sees_the_zone() {
    let at = ours(state(CLIENTS));
    for transport in ["+notcp", "+tcp"] {
        let dig = |args: &str| dig(at, &format!("{args} {transport}"));
        let soa = dig("llm.example.org SOA");
        assert!(soa.has("ns1.llm.example.org. hostmaster.llm.example.org. 1 86400 7200 3600000 5"));
        let ns = dig("llm.example.org NS");
        assert!(ns.has("ns1.llm.example.org.\t3600\tIN\tA\t127.0.0.1"), "{}", ns.text);
        assert_eq!(dig("EU.llm.example.org A").answers(), EU);
        let missing = dig("mars.llm.example.org A");
        assert!(missing.has("status: NXDOMAIN") && missing.has("AUTHORITY: 1"));
        assert!(missing.has("llm.example.org.\t5\tIN\tSOA"), "{}", missing.text);
        let nodata = dig("eu.llm.example.org TXT");
        assert!(nodata.has("status: NOERROR") && nodata.has("ANSWER: 0, AUTHORITY: 1"));
        assert!(dig("example.com A").has("status: REFUSED"));
        assert!(dig("version.bind CH TXT").has("status: REFUSED"));
        assert!(dig("llm.example.org ANY").has("\"RFC8482\" \"\""));
        assert!(dig("llm.example.org A +opcode=notify").has("status: NOTIMP"));
        assert!(dig("llm.example.org A +edns=1 +noednsneg").has("status: BADVERS"));
    }
    let mut transfer = Command::new(find("dig", "dnsutils"));
    transfer.args([
        &format!("@{}", at.ip()),
        "-p",
        &at.port().to_string(),
        "llm.example.org",
        "AXFR",
    ]);
    let output = String::from_utf8(transfer.output().unwrap().stdout).unwrap();
    assert!(output.contains("; Transfer failed."), "{output}");
}

// An answer over the size that dig offers is truncated, and dig asks again over TCP, as resolvers
// do.
#[test]
fn dig_asks_again_over_tcp() {
    let mut state = state(CLIENTS);
    let gateways =
        (1..=100).map(|n| (format!("gw-{n}"), vec![format!("192.0.2.{n}").parse().unwrap()]));
    state.fleet.regions.get_mut("ap").unwrap().gateways = gateways.collect();
    let at = ours(state);
    let cut = dig(at, "llm.example.org A +ignore");
    assert!(cut.has("flags: qr aa tc; QUERY: 1, ANSWER: 0"), "{}", cut.text);
    let whole = dig(at, "llm.example.org A");
    assert!(whole.has("ANSWER: 100") && whole.has("Truncated, retrying in TCP mode"));
    assert!(dig(at, "llm.example.org A +tcp +keepopen").has("ANSWER: 100"));
}

// dig compares the case of the question with the answer, and a resolver's mixed case comes back.
#[test]
fn dig_gets_its_case_back() {
    let at = ours(state(CLIENTS));
    let seen = dig(at, "LlM.eXample.ORG A");
    assert!(seen.has(";LlM.eXample.ORG.\t\tIN\tA"), "{}", seen.text);
    assert!(seen.has("LlM.eXample.ORG.\t10\tIN\tA"), "{}", seen.text);
}
