//! Cards of recorded hosts, meters over made-up readings, and the loopback of this machine.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};

use expect_test::expect;
use meridian_base::{Duration, Time};

use super::*;

/// A host of the fixtures. `ethtool` prints the page of a card, or fails if there is none.
fn host(name: &str, pages: &'static [(&'static str, &'static str)]) -> Host {
    let root = format!("{}/tests/fixtures/{name}", env!("CARGO_MANIFEST_DIR"));
    Host::new(Sysfs::new(root), move |card| {
        let page = pages.iter().find(|(known, _)| *known == card);
        page.map(|(_, page)| (*page).to_owned()).ok_or(std::io::Error::other("no such page"))
    })
}

fn shown(host: &Host, found: &Found) -> String {
    let mut text = String::new();
    for card in &found.cards {
        let rate = card.rate.map_or("no rate".to_owned(), |rate| rate.to_string());
        let counts = card.read(host).map(|counts| counts.0);
        let (kind, source) = (card.kind.name(), &card.source);
        text +=
            &format!("{} {kind}, {rate}, {source}: {counts:?} x {:?}\n", card.name, card.units());
        text.extend(card.notes.iter().map(|note| format!("  {note}\n")));
    }
    text.extend(found.skipped.iter().map(|one| format!("not {}: {}\n", one.name, one.why)));
    text
}

fn all(host: &Host) -> String {
    shown(host, &find(host, &[], &[]).unwrap())
}

// Cards with a cable are listed, with or without a known rate; virtual ones, bonds and cards without a
// link are not.
#[test]
fn ethernet() {
    expect![[r#"
        eth0 Ethernet, 25 Gb/s, kernel: Some([[1000, 2000]]) x [1]
        eth2 Ethernet, no rate, kernel: Some([[7, 8]]) x [1]
        not bond0: it is virtual
        not eth1: its link is down
        not lo: it is the loopback
        not veth0: it is virtual
    "#]]
    .assert_eq(&all(&host("ethernet", &[])));
}

// RDMA is added to what the kernel counts. Without counters of the RDMA port, the driver's counters of
// the whole port stand alone, and without those a note says what is missing.
#[test]
fn roce() {
    let page = &[(
        "ens2",
        "NIC statistics:\n     [0]: rx_ucast_bytes: 1\n     rx_bytes: 900\n     tx_bytes: 800\n",
    )];
    expect![[r#"
        ens1 RoCE, 200 Gb/s, kernel + RDMA port: Some([[100, 200], [1000, 2000]]) x [1, 4]
        ens2 RoCE, 100 Gb/s, ethtool, whole port: Some([[800, 900]]) x [1]
    "#]]
    .assert_eq(&all(&host("roce", page)));
    expect![[r#"
        ens1 RoCE, 200 Gb/s, kernel + RDMA port: Some([[100, 200], [1000, 2000]]) x [1, 4]
        ens2 RoCE, 100 Gb/s, kernel: Some([[100, 200]]) x [1]
          RDMA bytes of bnxt_re0 are not counted, so it is busier than shown; install ethtool
    "#]]
    .assert_eq(&all(&host("roce", &[])));
}

// RDMA of a bond is counted at the cables that it uses.
#[test]
fn roce_through_a_bond() {
    let page = &[("ens1", "tx_bytes_phy: 70\nrx_bytes_phy: 80\ntx_bytes: 1\n")];
    expect![[r#"
        ens1 RoCE, 100 Gb/s, ethtool, whole port: Some([[70, 80]]) x [1]
        not bond0: it is virtual
    "#]]
    .assert_eq(&all(&host("lag", page)));
}

// An InfiniBand port counts in words of four bytes, IP over it is part of that, and a port without a
// link is left out. A port without counters has no use instead of a use of 0.
#[test]
fn infiniband() {
    expect![[r#"
        eno1 Ethernet, 1 Gb/s, kernel: Some([[9, 9]]) x [1]
        mlx5_0/1 InfiniBand, 200 Gb/s, RDMA port: Some([[4000, 8000]]) x [4]
        rdmap0/1 RDMA, 100 Gb/s, RDMA port: None x []
          it has no counters of bytes that are known here, so its use is unknown
        not ib0: its bytes are counted at its InfiniBand port
        not mlx5_1/1: its link is down
    "#]]
    .assert_eq(&all(&host("infiniband", &[])));
}

// A name chooses among all cards, and a rate replaces the card's own.
#[test]
fn named_cards() {
    let ethernet = host("ethernet", &[]);
    let rate = ("veth0".to_owned(), "25Gbps".parse().unwrap());
    let found = find(&ethernet, &["veth0".to_owned()], &[rate]).unwrap();
    assert_eq!(found.cards.len(), 1);
    assert_eq!((found.cards[0].kind, found.cards[0].rate), (Kind::Virtual, Rate::new(3.125e9)));
    let infiniband = host("infiniband", &[]);
    let found = find(&infiniband, &["mlx5_0".to_owned()], &[]).unwrap();
    assert_eq!(found.cards[0].name, "mlx5_0/1");
}

// An error names the card and the choices.
#[test]
fn wrong_names() {
    let ethernet = host("ethernet", &[]);
    let rate = |name: &str| [(name.to_owned(), Rate::new(1.0).unwrap())];
    let of = |result: Result<Found, CardsError>| result.unwrap_err().to_string();
    let errors = [
        of(find(&ethernet, &["eth9".to_owned()], &[])),
        of(find(&ethernet, &[], &rate("eth9"))),
        of(find(&ethernet, &[], &rate("veth0"))),
        of(find(&host("none", &[]), &[], &[])).replace(env!("CARGO_MANIFEST_DIR"), "."),
    ];
    expect![[r#"
        no card is called `eth9`; use one of bond0, eth0, eth1, eth2, lo, veth0
        no card is called `eth9`; use one of eth0, eth2, bond0, eth1, lo, veth0
        `veth0` is not watched, as it is virtual; name it with --card, or remove its rate
        cannot read ./tests/fixtures/none/class/net: No such file or directory (os error 2); mount sysfs there"#]]
    .assert_eq(&errors.join("\n"));
}

// A rate has a unit, and bits are not mistaken for bytes.
#[test]
fn rates() {
    let of = |text: &str| text.parse::<Rate>().map(|rate| rate.gigabits()).ok();
    assert_eq!(
        [of("25Gbps"), of("3.125GB/s"), of("100 gbit")],
        [Some(25.0), Some(25.0), Some(100.0)]
    );
    for wrong in ["25", "", "Gbps", "-1Gbps", "0Gbps", "1e999Gbps", "nanGbps", "25Gb/s"] {
        assert_eq!(of(wrong), None, "{wrong}");
    }
    assert_eq!(Rate::of_port("200 Gb/sec (4X HDR)"), Rate::new(25e9));
    assert_eq!(Rate::of_port("2.5 Gb/sec (1X SDR)"), Rate::new(2.5 * 125e6));
    assert_eq!(Rate::of_speed("-1"), None);
}

/// A card that can carry 1,000 bytes a second, counted in these units.
fn meter(units: &[u64]) -> Meter {
    let source = |unit| card::Source::Files { paths: ["a".into(), "b".into()], unit };
    Meter::new(&Card {
        name: "card".to_owned(),
        kind: Kind::Ethernet,
        rate: Rate::new(1000.0),
        source: String::new(),
        notes: Vec::new(),
        sources: units.iter().map(|unit| source(*unit)).collect(),
    })
}

fn at(millis: u64) -> Time {
    Time::from_millis(millis)
}

fn sent(bytes: u64) -> Option<Counts> {
    Some(Counts(vec![[bytes, 0]]))
}

// The mean is over the whole time, the busiest second slides over windows, and busy windows count by
// their length. Directions are not added up.
#[test]
fn mean_and_bursts() {
    let mut meter = meter(&[1]);
    for (millis, [sent, received]) in
        [(0, [0, 0]), (500, [100, 0]), (1000, [550, 40]), (1500, [1000, 40]), (2000, [1000, 40])]
    {
        meter.read(at(millis), Some(Counts(vec![[sent, received]])));
    }
    let used = meter.used();
    assert_eq!((used.measured, used.bytes), (Duration::from_secs(2), [1000, 40]));
    assert_eq!(used.mean, Some([0.5, 0.02]));
    assert_eq!((used.busiest_second, used.above), (Some(0.9), Some(0.5)));
}

// A 32-bit counter that passes its end goes on, in its own units. A counter that was reset makes no
// window, whatever it shows.
#[test]
fn wraps_and_resets() {
    let mut words = meter(&[4]);
    words.read(at(0), sent(u64::from(u32::MAX) - 49));
    words.read(at(1000), sent(50));
    assert_eq!((words.used().bytes, words.used().resets), ([400, 0], 0));
    let mut bytes = meter(&[1]);
    for (millis, count) in [(0, 5_000_000_000), (1000, 100), (2000, 300), (3000, 299)] {
        bytes.read(at(millis), sent(count));
    }
    let used = bytes.used();
    assert_eq!((used.bytes, used.resets, used.measured), ([200, 0], 2, Duration::from_secs(1)));
}

// A card that leaves is measured while it is there, and its new counters are a new start.
#[test]
fn a_card_leaves() {
    let mut meter = meter(&[1]);
    for (millis, reading) in
        [(0, sent(0)), (1000, sent(500)), (2000, None), (3000, sent(7)), (4000, sent(107))]
    {
        meter.read(at(millis), reading);
    }
    let used = meter.used();
    assert_eq!((used.bytes, used.absences, used.measured), ([600, 0], 1, Duration::from_secs(2)));
    assert_eq!(used.mean, Some([0.3, 0.0]));
    let mut gone = super::tests::meter(&[1]);
    gone.read(at(0), None);
    assert_eq!((gone.used().mean, gone.used().absences), (None, 1));
}

// A driver that refreshes once a second shows bursts that no card can carry: only the mean is given.
#[test]
fn counters_that_move_seldom() {
    let mut meter = meter(&[1]);
    for nth in 0..=20 {
        meter.read(at(nth * 100), sent(nth / 10 * 400));
    }
    let used = meter.used();
    assert_eq!((used.is_coarse, used.mean), (true, Some([0.4, 0.0])));
    assert_eq!((used.busiest_second, used.above), (None, None));
}

// The loopback of this machine counts at least the bytes that this test sends over it, in both
// directions. Other programs may use it at the same time.
#[test]
fn bytes_on_the_loopback() {
    const BYTES: usize = 8 << 20;
    let host = Host::here();
    let rate = [("lo".to_owned(), "10Gbps".parse().unwrap())];
    let card = find(&host, &["lo".to_owned()], &rate).unwrap().cards.remove(0);
    let mut meter = Meter::new(&card);
    meter.read(at(0), card.read(&host));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let sender = std::thread::spawn(move || {
        TcpStream::connect(address).unwrap().write_all(&vec![7; BYTES]).unwrap();
    });
    let mut got = Vec::new();
    listener.accept().unwrap().0.read_to_end(&mut got).unwrap();
    sender.join().unwrap();
    meter.read(at(1000), card.read(&host));
    let used = meter.used();
    assert_eq!(got.len(), BYTES);
    assert!(used.bytes.iter().all(|bytes| *bytes >= BYTES as u64), "{used:?}");
}
