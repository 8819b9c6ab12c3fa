//! Revocation lists: one for each authority (`ca-N.crl`), and `ca.crl` with the lists of all
//! trusted authorities, which gateways and control planes read.
//!
//! A renewed certificate is valid until it expires, so `revoke NAME` revokes every certificate that
//! was issued to that name. `issued` keeps their serial numbers.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime};

use anyhow::{Context, bail};
use rcgen::{CertificateRevocationListParams, KeyIdMethod, RevokedCertParams, SerialNumber};
use x509_parser::pem::Pem;
use x509_parser::time::ASN1Time;

use super::authority::Authority;
use super::facts::Facts;
use super::folder::{Folder, Seat};

#[derive(Debug, clap::Args)]
pub(crate) struct Revoke {
    /// Folder of the authority
    pub(super) dir: std::path::PathBuf,
    /// Gateways, control planes and operators: NAME, or gateways/NAME if several have the name
    #[arg(required = true, value_name = "NAME")]
    pub(super) names: Vec<String>,
}

/// One authority's list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct List {
    /// The authority, as the list names it.
    pub(super) issuer: String,
    number: u64,
    /// Serial numbers, as certificates show them, and since when they are revoked.
    pub(super) entries: BTreeMap<String, SystemTime>,
}

impl List {
    /// Every list of a PEM file.
    pub(super) fn all(pem: &[u8]) -> anyhow::Result<Vec<List>> {
        let mut all = Vec::new();
        for block in Pem::iter_from_buffer(pem) {
            let block = block.context("is not a PEM file")?;
            let (_, list) = x509_parser::parse_x509_crl(&block.contents)
                .context("contains a damaged revocation list")?;
            let number = list.crl_number().and_then(|n| n.to_u64_digits().first().copied());
            let entries = list.iter_revoked_certificates();
            all.push(List {
                issuer: list.issuer().to_string(),
                number: number.unwrap_or(0),
                entries: entries
                    .map(|entry| (entry.raw_serial_as_string(), time(entry.revocation_date)))
                    .collect(),
            });
        }
        Ok(all)
    }

    /// The next list of `authority`, as PEM. It is valid as long as the authority.
    fn sign(&self, authority: &Authority, at: SystemTime) -> anyhow::Result<String> {
        let mut revoked_certs = Vec::with_capacity(self.entries.len());
        for (serial, since) in &self.entries {
            revoked_certs.push(RevokedCertParams {
                serial_number: SerialNumber::from(bytes(serial)?),
                revocation_time: (*since).into(),
                reason_code: None,
                invalidity_date: None,
            });
        }
        let params = CertificateRevocationListParams {
            this_update: at.into(),
            next_update: authority.facts.until.into(),
            crl_number: SerialNumber::from(self.number.saturating_add(1)),
            issuing_distribution_point: None,
            revoked_certs,
            key_identifier_method: KeyIdMethod::Sha256,
        };
        let list =
            params.signed_by(&authority.issuer).context("cannot sign the revocation list")?;
        list.pem().context("cannot write the revocation list")
    }
}

/// An empty list of `authority`.
pub(super) fn empty(authority: &Authority) -> anyhow::Result<String> {
    List::default().sign(authority, authority.facts.from)
}

/// The time since which a list of `all` revokes a certificate; `None` if none does.
pub(super) fn since(all: &[List], certificate: &Facts) -> Option<SystemTime> {
    let of_issuer = all.iter().filter(|list| list.issuer == certificate.issuer);
    of_issuer.filter_map(|list| list.entries.get(&certificate.serial)).min().copied()
}

/// Revokes every certificate that trusted authorities issued to these names.
pub(super) fn revoke(args: &Revoke, now: SystemTime) -> anyhow::Result<String> {
    let folder = Folder::at(&args.dir);
    let bundle = folder.bundle()?;
    let issued = folder.issued(now)?;
    let mut seats = BTreeSet::new();
    for name in &args.names {
        seats.insert(seat(name, &issued)?);
    }
    let mut said = String::new();
    let mut counts: BTreeMap<&Seat, (usize, usize)> = BTreeMap::new();
    for facts in &bundle {
        let Some(number) = facts.authority.as_ref().map(|ours| ours.number) else { continue };
        let mut list = folder.list(number)?;
        let before = list.entries.len();
        for one in issued.iter().filter(|one| one.authority == number) {
            let Some(seat) = seats.get(&one.seat) else { continue };
            let count = counts.entry(seat).or_default();
            match list.entries.contains_key(&one.serial) {
                true => count.1 += 1,
                false => {
                    count.0 += 1;
                    list.entries.insert(one.serial.clone(), now);
                }
            }
        }
        if list.entries.len() > before {
            let text = list.sign(&folder.numbered(number)?, now)?;
            folder.put_list(number, &text)?;
        }
    }
    let numbers = bundle.iter().filter_map(|facts| facts.authority.as_ref());
    folder.publish(&numbers.map(|ours| ours.number).collect::<Vec<_>>())?;
    for (seat, (new, old)) in counts {
        said.push_str(&match (new, old) {
            (0, _) => format!("{seat}: is revoked already\n"),
            (1, _) => format!("{seat}: its certificate is revoked\n"),
            (n, _) => format!("{seat}: its {n} certificates are revoked\n"),
        });
    }
    let path = folder.lists_path();
    let path = path.display();
    said.push_str(&format!(
        "copy {path} to every gateway and control plane; those whose `crl` names it reload it within 2 s\n"
    ));
    Ok(said)
}

/// Finds the member that `name` means.
fn seat(name: &str, issued: &[Issued]) -> anyhow::Result<Seat> {
    let fits = |seat: &Seat| seat.name() == name || seat.to_string() == name;
    let found: BTreeSet<&Seat> = issued.iter().map(|one| &one.seat).filter(|s| fits(s)).collect();
    let words = |seats: &BTreeSet<&Seat>, between: &str| {
        seats.iter().map(ToString::to_string).collect::<Vec<_>>().join(between)
    };
    match found.len() {
        1 => Ok((*found.first().expect("there is one")).clone()),
        0 => {
            let known: BTreeSet<&Seat> = issued.iter().map(|one| &one.seat).collect();
            bail!(
                "NAME: `{name}` has no valid certificate in this folder; use one of {}",
                words(&known, ", ")
            )
        }
        _ => bail!("NAME: `{name}` has several certificates; use one of {}", words(&found, " or ")),
    }
}

/// A certificate that was issued and has not expired.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Issued {
    pub(super) seat: Seat,
    pub(super) authority: u32,
    pub(super) serial: String,
    pub(super) until: SystemTime,
}

impl Issued {
    /// A line of the file `issued`.
    pub(super) fn line(&self) -> String {
        let until = humantime::format_rfc3339_seconds(self.until);
        format!("{} {} {} {until}\n", self.seat, self.authority, self.serial)
    }

    pub(super) fn read(line: &str) -> Option<Issued> {
        let mut words = line.split_ascii_whitespace();
        Some(Issued {
            seat: Seat::read(words.next()?)?,
            authority: words.next()?.parse().ok()?,
            serial: words.next()?.to_owned(),
            until: humantime::parse_rfc3339(words.next()?).ok()?,
        })
    }
}

fn bytes(serial: &str) -> anyhow::Result<Vec<u8>> {
    let pairs = serial.split(':').map(|pair| u8::from_str_radix(pair, 16));
    pairs.collect::<Result<_, _>>().with_context(|| format!("`{serial}` is not a serial number"))
}

fn time(at: ASN1Time) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(u64::try_from(at.timestamp()).unwrap_or(0))
}
