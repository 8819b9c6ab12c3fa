//! The contents of a certificate, read from its bytes.

use std::net::IpAddr;
use std::time::{Duration, SystemTime};

use anyhow::{Context, bail};
use meridian_protocol::peer::Party;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::pem::Pem;
use x509_parser::time::ASN1Time;

/// An authority that `meridian certs` made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ours {
    pub(super) fleet: String,
    pub(super) number: u32,
}

/// One certificate.
#[derive(Clone, Debug)]
pub(super) struct Facts {
    pub(super) subject: String,
    pub(super) issuer: String,
    pub(super) serial: String,
    pub(super) from: SystemTime,
    pub(super) until: SystemTime,
    /// The member of the fleet that it names.
    pub(super) party: Option<Party>,
    pub(super) dns: Vec<String>,
    pub(super) ips: Vec<IpAddr>,
    pub(super) authority: Option<Ours>,
    pub(super) server_auth: bool,
    pub(super) client_auth: bool,
    /// Its public key, as the certificate has it.
    pub(super) key: Vec<u8>,
    /// Names of its own key and of the one that signed it.
    key_ids: (Option<Vec<u8>>, Option<Vec<u8>>),
    pub(super) der: Vec<u8>,
}

impl Facts {
    /// Every certificate of a PEM file; at least one.
    pub(super) fn all(pem: &[u8]) -> anyhow::Result<Vec<Facts>> {
        let mut all = Vec::new();
        for block in Pem::iter_from_buffer(pem) {
            let block = block.context("is not a PEM file")?;
            match block.label.as_str() {
                "CERTIFICATE" => all.push(Facts::of(&block.contents)?),
                other => bail!("contains a {other} instead of certificates; name a .crt file"),
            }
        }
        if all.is_empty() {
            bail!("contains no certificate (-----BEGIN CERTIFICATE-----); name a .crt file");
        }
        Ok(all)
    }

    fn of(der: &[u8]) -> anyhow::Result<Facts> {
        let (_, cert) = x509_parser::parse_x509_certificate(der)
            .context("contains a damaged certificate; issue it again")?;
        let usage = cert.extended_key_usage().context("its usages cannot be read")?;
        let usage = usage.map(|usage| usage.value);
        let mut facts = Facts {
            subject: cert.subject().to_string(),
            issuer: cert.issuer().to_string(),
            serial: cert.raw_serial_as_string(),
            from: time(cert.validity().not_before),
            until: time(cert.validity().not_after),
            party: None,
            dns: Vec::new(),
            ips: Vec::new(),
            authority: authority(&cert),
            server_auth: usage.is_some_and(|u| u.server_auth),
            client_auth: usage.is_some_and(|u| u.client_auth),
            key: cert.public_key().raw.to_vec(),
            key_ids: key_ids(&cert),
            der: der.to_vec(),
        };
        let names = cert.subject_alternative_name().context("its names cannot be read")?;
        for name in names.iter().flat_map(|names| &names.value.general_names) {
            match name {
                GeneralName::URI(uri) => facts.party = uri.parse().ok().or(facts.party),
                GeneralName::DNSName(name) => facts.dns.push((*name).to_owned()),
                GeneralName::IPAddress(bytes) => facts.ips.extend(ip(bytes)),
                _ => {}
            }
        }
        Ok(facts)
    }

    /// Whether that authority issued it.
    pub(super) fn is_of(&self, authority: &Facts) -> bool {
        self.issuer == authority.subject && self.key_ids.1 == authority.key_ids.0
    }

    /// The time until it expires; `None` once it has expired.
    pub(super) fn left(&self, now: SystemTime) -> Option<Duration> {
        self.until.duration_since(now).ok().filter(|left| !left.is_zero())
    }

    /// DNS names besides the one that follows from its subject.
    pub(super) fn further_dns(&self) -> Vec<String> {
        let own = self.party.as_ref().and_then(Party::dns_name);
        self.dns.iter().filter(|name| Some(*name) != own.as_ref()).cloned().collect()
    }

    /// Its contents as text for operators.
    pub(super) fn text(&self, now: SystemTime) -> String {
        let mut lines = vec![self.subject.clone()];
        let mut add = |name: &str, value: String| lines.push(format!("  {name:<8} {value}"));
        match &self.party {
            Some(Party::Gateway(identity)) => add("gateway", identity.uri()),
            Some(party) => add(party.unit(), party.uri()),
            None => {}
        }
        if let Some(Ours { fleet, number }) = &self.authority {
            add("ca", format!("authority {number} of fleet {fleet}"));
        }
        let ips = self.ips.iter().map(ToString::to_string);
        let names: Vec<_> = self.dns.iter().cloned().chain(ips).collect();
        if !names.is_empty() {
            add("names", names.join(", "));
        }
        add("issuer", self.issuer.clone());
        add("serial", self.serial.clone());
        add("from", stamp(self.from));
        add("until", format!("{} ({})", stamp(self.until), self.standing(now)));
        if self.authority.is_none() {
            let yes = |is: bool| if is { "yes" } else { "no" };
            add(
                "usage",
                format!("server {}, client {}", yes(self.server_auth), yes(self.client_auth)),
            );
        }
        lines.push(String::new());
        lines.join("\n")
    }

    fn standing(&self, now: SystemTime) -> String {
        if self.from > now {
            return "not yet valid".to_owned();
        }
        match self.left(now) {
            Some(left) => format!("{} days left", left.as_secs() / 86_400),
            None => "expired".to_owned(),
        }
    }
}

fn authority(cert: &X509Certificate<'_>) -> Option<Ours> {
    let fleet = cert.subject().iter_organization().next()?.as_str().ok()?;
    let name = cert.subject().iter_common_name().next()?.as_str().ok()?;
    let number = name.strip_prefix(super::authority::COMMON_NAME)?.parse().ok()?;
    cert.is_ca().then(|| Ours { fleet: fleet.to_owned(), number })
}

fn key_ids(cert: &X509Certificate<'_>) -> (Option<Vec<u8>>, Option<Vec<u8>>) {
    let (mut own, mut signer) = (None, None);
    for extension in cert.extensions() {
        match extension.parsed_extension() {
            ParsedExtension::SubjectKeyIdentifier(id) => own = Some(id.0.to_vec()),
            ParsedExtension::AuthorityKeyIdentifier(id) => {
                signer = id.key_identifier.as_ref().map(|id| id.0.to_vec());
            }
            _ => {}
        }
    }
    (own, signer)
}

fn time(at: ASN1Time) -> SystemTime {
    let seconds = u64::try_from(at.timestamp()).unwrap_or(0);
    SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
}

fn stamp(at: SystemTime) -> String {
    humantime::format_rfc3339_seconds(at).to_string()
}

fn ip(bytes: &[u8]) -> Option<IpAddr> {
    let four = |b: &[u8]| <[u8; 4]>::try_from(b).ok().map(IpAddr::from);
    four(bytes).or_else(|| <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from))
}
