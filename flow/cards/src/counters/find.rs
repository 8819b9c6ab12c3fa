//! Finds the cards of a host, and the source of each one's bytes.

use super::card::Source;
use super::rdma::{self, Port};
use super::sysfs::{Host, Sysfs};
use super::{Card, CardsError, Kind, Rate, ethtool};

/// The kernel's number of a network device's kind: IP over InfiniBand.
const IP_OVER_INFINIBAND: u64 = 32;

/// The cards to watch, and the others.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Found {
    /// By name; network devices first.
    pub cards: Vec<Card>,
    /// Those left out.
    pub skipped: Vec<Skipped>,
}

/// A card that is not watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// Its name.
    pub name: String,
    /// Why, as the end of a sentence that starts with the name.
    pub why: &'static str,
}

/// Lists the cards: those named, or all with a cable and a link. A rate replaces a card's own.
///
/// # Errors
/// If a name is unknown, a rate belongs to no card watched, or the tree cannot be read.
pub fn find(host: &Host, named: &[String], rates: &[(String, Rate)]) -> Result<Found, CardsError> {
    let sysfs = &host.sysfs;
    let netdevs = sysfs
        .list("class/net")
        .map_err(|source| CardsError::Sysfs { path: sysfs.path("class/net"), source })?;
    // `bonding_masters` is a file there, not a card.
    let is_device = |name: &String| sysfs.path(format!("class/net/{name}/statistics")).is_dir();
    let netdevs: Vec<String> = netdevs.into_iter().filter(is_device).collect();
    let ports = rdma::ports(sysfs);
    let all = netdevs.iter().map(|name| (netdev(host, name, &ports), why_not(sysfs, name)));
    let alone = ports.iter().filter_map(|port| {
        Some((of_port(port, port.alone?), (!port.is_up).then_some("its link is down")))
    });
    let mut found = Found::default();
    for (card, why) in all.chain(alone) {
        let is_named = named.iter().any(|name| is_called(&card, name));
        let why = why.or((!named.is_empty()).then_some("it is not named"));
        match why {
            Some(why) if !is_named => found.skipped.push(Skipped { name: card.name, why }),
            _ => found.cards.push(card),
        }
    }
    for name in named {
        if !found.cards.iter().any(|card| is_called(card, name)) {
            return Err(unknown(name, &found));
        }
    }
    for (name, rate) in rates {
        let card = found.cards.iter_mut().find(|card| is_called(card, name));
        match (card, found.skipped.iter().find(|skipped| skipped.name == *name)) {
            (Some(card), _) => card.rate = Some(*rate),
            (None, Some(Skipped { why, .. })) => {
                return Err(CardsError::Unwatched { name: name.clone(), why: (*why).to_owned() });
            }
            (None, None) => return Err(unknown(name, &found)),
        }
    }
    Ok(found)
}

/// Whether a name means the card; an RDMA device stands for each of its ports.
fn is_called(card: &Card, name: &str) -> bool {
    card.name == name || card.name.split_once('/').is_some_and(|(device, _)| device == name)
}

fn unknown(name: &str, found: &Found) -> CardsError {
    let cards = found.cards.iter().map(|card| card.name.as_str());
    let all: Vec<&str> = cards.chain(found.skipped.iter().map(|one| one.name.as_str())).collect();
    CardsError::Unknown { name: name.to_owned(), known: all.join(", ") }
}

/// Why a network device is not watched unless it is named.
fn why_not(sysfs: &Sysfs, name: &str) -> Option<&'static str> {
    if name == "lo" {
        return Some("it is the loopback");
    }
    if is_virtual(sysfs, name) {
        return Some("it is virtual");
    }
    if sysfs.number(format!("class/net/{name}/type")) == Some(IP_OVER_INFINIBAND) {
        return Some("its bytes are counted at its InfiniBand port");
    }
    let state = sysfs.text(format!("class/net/{name}/operstate")).unwrap_or_default();
    let is_down = ["down", "lowerlayerdown", "notpresent", "dormant"].contains(&state.as_str());
    is_down.then_some("its link is down")
}

fn is_virtual(sysfs: &Sysfs, name: &str) -> bool {
    let real = sysfs.real(format!("class/net/{name}"));
    real.is_some_and(|path| path.to_string_lossy().contains("/devices/virtual/"))
}

fn of_port(port: &Port, kind: Kind) -> Card {
    let none = "it has no counters of bytes that are known here, so its use is unknown";
    let notes = if port.source.is_none() { vec![none.to_owned()] } else { Vec::new() };
    Card {
        name: port.name.clone(),
        kind,
        rate: port.rate,
        source: "RDMA port".to_owned(),
        notes,
        sources: port.source.iter().cloned().collect(),
    }
}

/// A network device as a card, with the RDMA ports that share its cable.
fn netdev(host: &Host, name: &str, ports: &[Port]) -> Card {
    let sysfs = &host.sysfs;
    let folder = format!("class/net/{name}");
    let speed = sysfs.text(format!("{folder}/speed")).and_then(|text| Rate::of_speed(&text));
    let master = sysfs.link(format!("{folder}/master"));
    let ethernet = || ports.iter().filter(|port| port.alone.is_none());
    let own: Vec<&Port> = ethernet().filter(|port| port.netdev.as_deref() == Some(name)).collect();
    let through_bond =
        master.is_some() && ethernet().any(|port| port.netdev.as_deref() == master.as_deref());
    let paths = ["tx_bytes", "rx_bytes"].map(|file| format!("{folder}/statistics/{file}").into());
    let kernel = Source::Files { paths, unit: 1 };
    let kind = match (is_virtual(sysfs, name), own.is_empty() && !through_bond) {
        (true, _) => Kind::Virtual,
        (false, true) => Kind::Ethernet,
        (false, false) => Kind::Roce,
    };
    let mut card = Card {
        name: name.to_owned(),
        kind,
        rate: speed.or_else(|| own.first()?.rate),
        source: "kernel".to_owned(),
        notes: Vec::new(),
        sources: vec![kernel],
    };
    if !own.is_empty() || through_bond {
        add_rdma(host, &mut card, &own);
    }
    card
}

/// Adds the bytes of RDMA, which the kernel does not see.
///
/// The ports' counters are taken unless they are missing, or stand at 0 where the driver's do not:
/// some cards never move them. RDMA of a bond belongs to no single one of its cards, so there only
/// the driver's counters of the whole cable can tell.
fn add_rdma(host: &Host, card: &mut Card, own: &[&Port]) {
    let sysfs = &host.sysfs;
    let ports: Option<Vec<Source>> = own.iter().map(|port| port.source.clone()).collect();
    let ports = ports.filter(|sources| !sources.is_empty());
    let driver = sysfs.link(format!("class/net/{}/device/driver", card.name));
    let driver = driver.and_then(|name| ethtool::driver(&name));
    let page = driver.and_then(|_| host.driver_counters(&card.name));
    let read = |names| ethtool::values(page.as_deref()?, names);
    let has_rdma = driver.and_then(|driver| read(driver.rdma?));
    let is_still = |source: &Source| source.read(host).is_none_or(|counts| counts == [0, 0]);
    let are_dead =
        has_rdma.is_some_and(|counts| counts != [0, 0]) && ports.iter().flatten().all(is_still);
    let of_driver = |names| Source::Driver { netdev: card.name.clone(), names };
    match (ports, driver) {
        (Some(ports), _) if !are_dead => {
            card.sources.extend(ports);
            card.source = "kernel + RDMA port".to_owned();
        }
        (_, Some(driver)) if read(driver.whole).is_some() => {
            card.sources = vec![of_driver(driver.whole)];
            card.source = "ethtool, whole port".to_owned();
        }
        (_, Some(driver)) if has_rdma.is_some() && !own.is_empty() => {
            card.sources.extend(driver.rdma.map(of_driver));
            card.source = "kernel + ethtool".to_owned();
        }
        _ => {
            let devices: Vec<&str> = own.iter().map(|port| port.device.as_str()).collect();
            let of = if devices.is_empty() { "the bond".to_owned() } else { devices.join(", ") };
            card.notes.push(format!(
                "RDMA bytes of {of} are not counted, so it is busier than shown; install ethtool"
            ));
        }
    }
}
