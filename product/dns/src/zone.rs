//! The zone: its name, its name servers and its times to live, checked once.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use hickory_proto::rr::Name;
use hickory_proto::rr::rdata::SOA;

use crate::problem::{Problem, Problems};

/// Time to live of SOA and NS records and of the name servers' addresses, in seconds. They change
/// only when an operator moves a name server.
pub(crate) const STABLE_TTL: u32 = 3600;
/// Longest time to live that the settings may have, in seconds.
const LONGEST_TTL: u64 = 86_400;
/// The zone is not transferred, so its serial number means nothing. It is the same on every name
/// server: tools that compare them report different ones as a fault.
const SERIAL: u32 = 1;
/// Times for secondary name servers, in seconds, as RIPE-203 recommends them. None asks.
const REFRESH: i32 = 86_400;
const RETRY: i32 = 7200;
const EXPIRE: i32 = 3_600_000;
/// Longest label, and room for it and its length before the zone's name (RFC 1035, section 2.3.4).
const LONGEST_LABEL: usize = 63;
const LONGEST_ZONE: usize = 253 - LONGEST_LABEL - 1;

/// The settings of a zone as an operator writes them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The zone's name, such as `llm.example.org`.
    pub zone: String,
    /// Its name servers and their addresses. A name without a dot is inside the zone.
    pub nameservers: BTreeMap<String, Vec<IpAddr>>,
    /// Time to live of the gateways' addresses, in whole seconds up to a day.
    pub ttl: Duration,
    /// Time to live of the answer that a name or a type does not exist, in whole seconds up to a
    /// day.
    pub negative_ttl: Duration,
    /// The mail address of the people who run the zone; `hostmaster` at the zone if absent.
    pub contact: Option<String>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            zone: String::new(),
            nameservers: BTreeMap::new(),
            ttl: Duration::from_secs(10),
            negative_ttl: Duration::from_secs(5),
            contact: None,
        }
    }
}

/// A zone whose settings were checked.
#[derive(Clone, Debug)]
pub struct Zone {
    pub(crate) name: Name,
    pub(crate) servers: Vec<Server>,
    pub(crate) soa: SOA,
    /// In seconds.
    pub(crate) ttl: u32,
    /// In seconds.
    pub(crate) negative_ttl: u32,
}

/// A name server of the zone.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    pub(crate) name: Name,
    /// Its addresses, if its name is inside the zone.
    pub(crate) addresses: Vec<IpAddr>,
}

impl Zone {
    /// Checks the settings.
    ///
    /// # Errors
    /// Every field that can't be used, with its value and what to write instead.
    pub fn new(settings: &Settings) -> Result<Zone, Vec<Problem>> {
        let mut problems = Problems::default();
        let name = zone_name(&settings.zone).unwrap_or_else(|problem| {
            problems.add(problem);
            Name::root()
        });
        let servers = servers(settings, &name, &mut problems);
        let ttl = seconds("ttl", settings.ttl, &mut problems);
        let negative_ttl = seconds("negative_ttl", settings.negative_ttl, &mut problems);
        let contact = contact(settings.contact.as_deref(), &name).unwrap_or_else(|problem| {
            problems.add(problem);
            Name::root()
        });
        let first = servers.first().map_or_else(Name::root, |server| server.name.clone());
        let soa = SOA::new(first, contact, SERIAL, REFRESH, RETRY, EXPIRE, negative_ttl);
        problems.or(Zone { name, servers, soa, ttl, negative_ttl })
    }

    /// The zone's name, with the final dot.
    #[must_use]
    pub fn name(&self) -> String {
        self.name.to_ascii()
    }
}

/// A name of letters, digits, hyphens and underscores, with the final dot or without.
fn plain_name(text: &str) -> Option<Name> {
    let labels: Vec<&str> = text.strip_suffix('.').unwrap_or(text).split('.').collect();
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let good = |label: &&str| {
        !label.is_empty() && label.len() <= LONGEST_LABEL && label.chars().all(plain)
    };
    if !labels.iter().all(good) {
        return None;
    }
    Name::from_labels(labels.iter().map(|label| label.as_bytes()))
        .ok()
        .map(|name| name.to_lowercase())
}

fn zone_name(text: &str) -> Result<Name, Problem> {
    let problem = |cause: &str, remedy: &str| Problem::new("zone", text, cause, remedy);
    if text.is_empty() {
        return Err(problem("missing", "write the name that clients use, such as llm.example.org"));
    }
    let Some(name) = plain_name(text) else {
        let remedy = "write labels of letters, digits and hyphens, such as llm.example.org, and \
                      other letters in their xn-- form";
        return Err(problem("not a name", remedy));
    };
    if text.len() > LONGEST_ZONE {
        let remedy = format!("write at most {LONGEST_ZONE} bytes: a region's name goes before it");
        return Err(problem("too long", &remedy));
    }
    Ok(name)
}

fn servers(settings: &Settings, zone: &Name, problems: &mut Problems) -> Vec<Server> {
    if settings.nameservers.is_empty() {
        let remedy = "write the name servers of the zone, such as `ns1: [198.51.100.1]`";
        problems.add(Problem::new("nameservers", "none", "missing", remedy));
    }
    let mut servers: Vec<Server> = Vec::new();
    for (text, addresses) in &settings.nameservers {
        let field = format!("nameservers.{text}");
        let name = plain_name(text).and_then(|name| {
            if text.contains('.') { Some(name) } else { name.append_name(zone).ok() }
        });
        let Some(name) = name else {
            let remedy = "write a label such as ns1, or a whole name such as ns1.example.net";
            problems.add(Problem::new(field, text, "not a name", remedy));
            continue;
        };
        let inside = zone.zone_of(&name);
        if name == *zone {
            let remedy = "the zone's own name leads to gateways; write a label such as ns1";
            problems.add(Problem::new(field, text, "the name of the zone", remedy));
        } else if inside && addresses.is_empty() {
            let remedy = "write its addresses: no other zone has them";
            problems.add(Problem::new(field, "no address", "inside the zone", remedy));
        } else if !inside && !addresses.is_empty() {
            let list: Vec<String> = addresses.iter().map(ToString::to_string).collect();
            let remedy = "write an empty list: its addresses come from its own zone";
            problems.add(Problem::new(field, list.join(", "), "outside the zone", remedy));
        } else if servers.iter().any(|server| server.name == name) {
            let value = name.to_ascii();
            problems.add(Problem::new(field, value, "listed twice", "leave one of them out"));
        }
        servers.push(Server { name, addresses: addresses.clone() });
    }
    servers
}

fn seconds(field: &str, time: Duration, problems: &mut Problems) -> u32 {
    let whole = time.as_secs();
    if time.subsec_nanos() != 0 || whole > LONGEST_TTL {
        let value = format!("{time:?}");
        let remedy = format!("write whole seconds from 0 to {LONGEST_TTL}");
        problems.add(Problem::new(field, value, "not a time to live", remedy));
    }
    u32::try_from(whole).unwrap_or(u32::MAX)
}

/// The mail address as a name: its part before the @ is the first label (RFC 1035, section 8).
fn contact(text: Option<&str>, zone: &Name) -> Result<Name, Problem> {
    let Some(text) = text else {
        return Ok(zone.prepend_label("hostmaster").unwrap_or_else(|_| zone.clone()));
    };
    let name = text.split_once('@').and_then(|(person, host)| {
        let host = plain_name(host)?;
        let good = !person.is_empty() && person.is_ascii() && person.len() <= LONGEST_LABEL;
        good.then(|| host.prepend_label(person.as_bytes()).ok()).flatten()
    });
    let remedy = "write a mail address such as dns@example.org, or leave it out";
    name.ok_or_else(|| Problem::new("contact", text, "not a mail address", remedy))
}

#[cfg(test)]
mod tests;
