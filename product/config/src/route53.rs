//! The control plane's section `route53`: one name for all regions in a hosted zone of AWS Route 53.

use std::collections::{BTreeMap, BTreeSet};

use http::Uri;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Span;
use meridian_protocol::peer::label;

/// Longest owner: the set identifier of a record has 128 characters, with a region of 63 and an address of 39.
const MOST_OWNER: usize = 24;
/// Longest id of a hosted zone.
const MOST_ZONE: usize = 32;
/// Longest name, in characters.
const MOST_NAME: usize = 253;
/// Longest path of a health check.
const MOST_PATH: usize = 255;
/// Longest time to live: failover takes as long.
const MOST_TTL: Span = Span::secs(3600);

/// Latency records with health checks in a hosted zone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Route53 {
    /// Id of the hosted zone, such as `Z0123456789ABCDEFGHIJ`.
    pub zone: String,
    /// The name that clients use, such as `llm.example.org`.
    pub name: String,
    /// The AWS region of each region of the fleet, such as `eu: eu-central-1`. Latency is measured to
    /// it. Regions that are not listed get no records.
    pub regions: BTreeMap<String, String>,
    /// How long resolvers keep the gateways' addresses, in whole seconds.
    #[serde(default = "ttl")]
    pub ttl: Span,
    /// Marks the records and health checks that Meridian made. Others are never changed.
    #[serde(default = "owner")]
    pub owner: String,
    /// How Route 53 checks each gateway.
    #[serde(default)]
    pub health_check: HealthCheck,
    /// URL of the API, if it is not AWS's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
}

/// A health check of each gateway's address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct HealthCheck {
    /// Whether gateways are asked over https or http.
    #[serde(rename = "type")]
    pub scheme: Scheme,
    /// The gateways' port for clients; 443 for https and 80 for http if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// The path, which has to answer with a status of 200 to 399.
    pub path: String,
    /// Time between two requests of one checker: 10s or 30s.
    pub interval: Span,
    /// Failed checks in a row until a gateway counts as unhealthy, 1 to 10; and as many good ones until it
    /// counts as healthy.
    pub failures: u32,
}

/// The protocol of a health check.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Scheme {
    /// With TLS. Route 53 does not verify the certificate.
    #[default]
    Https,
    /// Without TLS.
    Http,
}

impl Default for HealthCheck {
    fn default() -> HealthCheck {
        HealthCheck {
            scheme: Scheme::Https,
            port: None,
            path: "/ready".to_owned(),
            interval: Span::secs(30),
            failures: 3,
        }
    }
}

fn ttl() -> Span {
    const TTL: Span = Span::secs(30);
    assert!(TTL <= MOST_TTL, "the default is within its limit");
    TTL
}

fn owner() -> String {
    const OWNER: &str = "meridian";
    const { assert!(OWNER.len() <= MOST_OWNER, "the default is within its limit") };
    OWNER.to_owned()
}

impl HealthCheck {
    /// The port that is asked.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port.unwrap_or(match self.scheme {
            Scheme::Https => 443,
            Scheme::Http => 80,
        })
    }

    fn check(&self, check: &mut impl FnMut(bool, String)) {
        check(
            self.port != Some(0),
            "route53.health_check.port: 0 is not a port; use the gateways' port for clients"
                .to_owned(),
        );
        let is_path = self.path.starts_with('/')
            && self.path.len() <= MOST_PATH
            && self.path.bytes().all(|b| b.is_ascii_graphic());
        check(
            is_path,
            format!(
                "route53.health_check.path: `{}` is not a path; start it with `/`, as in /ready, and use at most {MOST_PATH} printable characters",
                self.path
            ),
        );
        check(
            [Span::secs(10), Span::secs(30)].contains(&self.interval),
            format!(
                "route53.health_check.interval: {} is not an interval of Route 53; use 10s or 30s",
                humantime::format_duration(self.interval.0)
            ),
        );
        check(
            (1..=10).contains(&self.failures),
            format!(
                "route53.health_check.failures: {} is out of range; use 1 to 10",
                self.failures
            ),
        );
    }
}

impl Route53 {
    pub(super) fn check(&self, check: &mut impl FnMut(bool, String)) {
        let Route53 { zone, name, regions, ttl, owner, health_check, endpoint } = self;
        let is_zone = (1..=MOST_ZONE).contains(&zone.len())
            && zone.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit());
        check(
            is_zone,
            format!(
                "route53.zone: `{zone}` is not the id of a hosted zone; copy it from Route 53's list of hosted zones, as in Z0123456789ABCDEFGHIJ"
            ),
        );
        check(
            is_name(name),
            format!(
                "route53.name: `{name}` is not a name; write it in lower case and without the final dot, as in llm.example.org"
            ),
        );
        check_regions(regions, name, check);
        check(
            (Span::secs(1)..=MOST_TTL).contains(ttl) && ttl.0.subsec_nanos() == 0,
            format!(
                "route53.ttl: {} is out of range; use whole seconds from 1s to 1h",
                humantime::format_duration(ttl.0)
            ),
        );
        check(
            label("owner", owner).is_ok() && owner.len() <= MOST_OWNER,
            format!(
                "route53.owner: `{owner}` is not an owner; use a letter, then letters, digits and hyphens, in lower case, at most {MOST_OWNER}"
            ),
        );
        health_check.check(check);
        check(
            endpoint.as_deref().is_none_or(is_endpoint),
            format!(
                "route53.endpoint: `{}` is not a URL; write scheme and host, as in https://route53.example.com, or leave it out for AWS",
                endpoint.as_deref().unwrap_or_default()
            ),
        );
    }
}

fn check_regions(
    regions: &BTreeMap<String, String>,
    name: &str,
    check: &mut impl FnMut(bool, String),
) {
    check(
        !regions.is_empty(),
        "route53.regions: is empty; name the AWS region of each region, as in {eu: eu-central-1}"
            .to_owned(),
    );
    let mut seen = BTreeSet::new();
    for (region, aws) in regions {
        check(
            label("region", region).is_ok(),
            format!(
                "route53.regions: `{region}` is not the name of a region; use a letter, then letters, digits and hyphens, in lower case"
            ),
        );
        check(
            region.len() + 1 + name.len() <= MOST_NAME,
            format!(
                "route53.regions.{region}: the name {region}.{name} is too long; names have at most {MOST_NAME} characters"
            ),
        );
        check(
            is_aws_region(aws),
            format!(
                "route53.regions.{region}: `{aws}` is not an AWS region; use one near your gateways, as in eu-central-1"
            ),
        );
        // Route 53 refuses two latency records with one region.
        check(
            seen.insert(aws),
            format!(
                "route53.regions.{region}: `{aws}` is there twice; Route 53 has one latency record for each AWS region, so choose another one nearby"
            ),
        );
    }
}

/// Whether it is a name of at least two labels.
fn is_name(text: &str) -> bool {
    let is_label = |part: &str| {
        (1..=63).contains(&part.len())
            && !part.starts_with('-')
            && !part.ends_with('-')
            && part.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
    };
    text.len() <= MOST_NAME && text.contains('.') && text.split('.').all(is_label)
}

/// Whether it has the form of an AWS region: letters and a final number, as in `ap-southeast-2`.
fn is_aws_region(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let Some((number, words)) = parts.split_last() else { return false };
    let is_word = |word: &&str| !word.is_empty() && word.bytes().all(|b| b.is_ascii_lowercase());
    words.len() >= 2
        && words.iter().all(is_word)
        && (1..=2).contains(&number.len())
        && number.bytes().all(|b| b.is_ascii_digit())
}

/// Whether it is scheme and host, perhaps with a port, and nothing else.
fn is_endpoint(text: &str) -> bool {
    let Ok(uri) = text.parse::<Uri>() else { return false };
    matches!(uri.scheme_str(), Some("http" | "https"))
        && uri.path() == "/"
        && uri.query().is_none()
        && !text.ends_with('/')
        && !text.contains('@')
}

#[cfg(test)]
mod tests {
    use crate::{Control, Span};

    // The short form has the defaults, and reads back.
    #[test]
    fn route53_form() {
        let yaml = "version: 1\nstore: a.redb\nroute53:\n  zone: Z0123456789ABCDEFGHIJ\n  \
            name: llm.example.org\n  regions: {eu: eu-central-1, us: us-gov-west-1}\n";
        let config = Control::read(yaml).unwrap();
        let section = config.route53.as_ref().unwrap();
        let check = &section.health_check;
        assert_eq!((section.ttl, section.owner.as_str()), (Span::secs(30), "meridian"));
        assert_eq!((check.port(), check.path.as_str(), check.failures), (443, "/ready", 3));
        assert_eq!(Control::read(&config.print().unwrap()).unwrap(), config);
        let http = format!("{yaml}  health_check: {{type: http, interval: 10s}}\n");
        assert_eq!(Control::read(&http).unwrap().route53.unwrap().health_check.port(), 80);
    }

    // Every problem has its field, value and remedy.
    #[test]
    fn route53_problems() {
        let yaml = "version: 1\nstore: a.redb\nroute53:\n  zone: /hostedzone/Z1\n  name: llm.example.org.\n  \
            regions: {EU: eu-central-1, uk: eu-central-1, us: virginia}\n  ttl: 1500ms\n  owner: a b\n  \
            health_check: {port: 0, path: ready, interval: 20s, failures: 11}\n  endpoint: localhost:5000\n";
        let found = Control::read(yaml).unwrap_err().problems;
        for part in [
            "route53.zone: `/hostedzone/Z1` is not the id",
            "route53.name: `llm.example.org.` is not a name",
            "route53.regions: `EU` is not the name",
            "route53.regions.uk: `eu-central-1` is there twice",
            "route53.regions.us: `virginia` is not an AWS region",
            "route53.ttl: 1s 500ms is out of range",
            "route53.owner: `a b` is not an owner",
            "route53.health_check.port: 0",
            "route53.health_check.path: `ready`",
            "route53.health_check.interval: 20s",
            "route53.health_check.failures: 11",
            "route53.endpoint: `localhost:5000` is not a URL",
        ] {
            assert!(found.iter().any(|p| p.text.contains(part)), "{part}: {found:#?}");
        }
        let none = "version: 1\nstore: a\nroute53: {zone: Z1, name: a.b, regions: {}}\n";
        let error = Control::read(none).unwrap_err().to_string();
        assert!(error.contains("route53.regions: is empty"), "{error}");
    }
}
