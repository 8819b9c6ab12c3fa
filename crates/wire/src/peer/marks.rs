//! What one gateway says of a request that it sends on to another, in headers beside the client's.
//!
//! They count only where a certificate of the fleet came with them. What a client sends under their
//! names is taken out before anything reads it ([`Marks::strip`]).
//!
//! Deliberately not here: the trace and the request's id. They are headers of the client's, or were
//! given by the first gateway, and travel as they are.

use std::time::Duration;

use http::header::{HeaderMap, HeaderName, HeaderValue};

use meridian_routing::Priority;
use meridian_routing::residency::Rule;

use super::hello::MAJOR;
use super::rules;

/// The version of the protocol; it also tells a forward from anything else.
const FORWARD: HeaderName = HeaderName::from_static("x-meridian-forward");
const HOPS: HeaderName = HeaderName::from_static("x-meridian-hops");
const TENANT: HeaderName = HeaderName::from_static("x-meridian-tenant");
const KEY: HeaderName = HeaderName::from_static("x-meridian-key");
const BUDGET: HeaderName = HeaderName::from_static("x-meridian-budget-ms");
const MODEL: HeaderName = HeaderName::from_static("x-meridian-model");
const CONTINUES: HeaderName = HeaderName::from_static("x-meridian-continues");
const RULES: HeaderName = HeaderName::from_static("x-meridian-rules");
const PRIORITY: HeaderName = HeaderName::from_static("x-meridian-priority");
/// What a client may not say. A class it may: it can only lower its own.
static ALL: [HeaderName; 8] = [FORWARD, HOPS, TENANT, KEY, BUDGET, MODEL, CONTINUES, RULES];

/// What all names of ours begin with.
const OURS: &str = "x-meridian-";
/// Characters that are shown of a value that cannot be.
const MOST_SHOWN: usize = 40;

/// What a gateway says of a request that it sends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Marks {
    /// Gateways that sent it on, this time included: always 1.
    pub hops: u8,
    /// The tenant's name, as the first gateway knows it.
    pub tenant: Option<HeaderValue>,
    /// Hash of the affinity key, so that rings and sessions mean the same in both regions.
    pub key: u64,
    /// How long the answer's first byte may take to leave the peer; none without an objective.
    pub budget: Option<Duration>,
    /// The model's name where the body names none.
    pub model: Option<HeaderValue>,
    /// It goes on with a chat that broke off: only an engine that can be told to may serve it.
    pub continues: bool,
    /// The residency rules that name it by the first gateway's configuration.
    pub rules: Vec<Rule>,
    /// Its class in the queue, as the first gateway knows it. Older gateways say none, and pass one
    /// over.
    pub priority: Priority,
}

/// Why a request on the peer port is no forward.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MarksError {
    /// It is not marked as one.
    #[error(
        "x-meridian-forward: is missing; only requests that a gateway sends on are served here"
    )]
    None,
    /// Another major version of the protocol.
    #[error(
        "x-meridian-forward: version {theirs} of the peer protocol came and {MAJOR} is spoken here; update the older gateway"
    )]
    Version {
        /// What it says.
        theirs: u32,
    },
    /// It was sent on before.
    #[error("x-meridian-hops: {0} came; a request is sent on once, and then it is 1")]
    Hops(u8),
    /// A value that cannot be read.
    #[error("{name}: `{value}` is no {wanted}")]
    Value {
        /// The header.
        name: &'static str,
        /// The beginning of what stands there.
        value: String,
        /// What should.
        wanted: &'static str,
    },
}

impl Marks {
    /// Adds them to a request's headers.
    pub fn write(&self, headers: &mut HeaderMap) {
        headers.insert(FORWARD, HeaderValue::from(MAJOR));
        headers.insert(HOPS, HeaderValue::from(u16::from(self.hops)));
        headers.insert(KEY, HeaderValue::from(self.key));
        let is_special = self.priority != Priority::default();
        let ms = |b: Duration| HeaderValue::from(u64::try_from(b.as_millis()).unwrap_or(u64::MAX));
        let rest = [
            (TENANT, self.tenant.clone()),
            (BUDGET, self.budget.map(ms)),
            (MODEL, self.model.clone()),
            (CONTINUES, self.continues.then(|| HeaderValue::from_static("1"))),
            (RULES, (!self.rules.is_empty()).then(|| self.rules_mark())),
            (PRIORITY, is_special.then(|| HeaderValue::from_static(self.priority.word()))),
        ];
        for (name, value) in rest {
            if let Some(value) = value {
                headers.insert(name, value);
            }
        }
    }

    fn rules_mark(&self) -> HeaderValue {
        let text = rules::written(self.rules.iter());
        HeaderValue::from_str(&text).expect("names and signs are a header value")
    }

    /// Takes them out of the headers of a request that a peer sent.
    ///
    /// # Errors
    /// When it is no forward, or one that may not be.
    pub fn take(headers: &mut HeaderMap) -> Result<Marks, MarksError> {
        let version = headers.remove(&FORWARD).ok_or(MarksError::None)?;
        let theirs = number("x-meridian-forward", &version)?;
        if theirs != u64::from(MAJOR) {
            return Err(MarksError::Version { theirs: u32::try_from(theirs).unwrap_or(u32::MAX) });
        }
        let hops = headers.remove(&HOPS).map_or(Ok(0), |v| number("x-meridian-hops", &v))?;
        if hops != 1 {
            return Err(MarksError::Hops(u8::try_from(hops).unwrap_or(u8::MAX)));
        }
        let key = headers.remove(&KEY).map_or(Ok(0), |v| number("x-meridian-key", &v))?;
        let budget = headers.remove(&BUDGET).map(|v| number("x-meridian-budget-ms", &v));
        let rules = headers.remove(&RULES).map(|v| residency(&v)).transpose()?;
        let priority = headers.remove(&PRIORITY).map(|v| class(&v)).transpose()?;
        Ok(Marks {
            priority: priority.unwrap_or_default(),
            rules: rules.unwrap_or_default(),
            hops: 1,
            tenant: headers.remove(&TENANT),
            key,
            budget: budget.transpose()?.map(Duration::from_millis),
            model: headers.remove(&MODEL),
            continues: headers.remove(&CONTINUES).is_some(),
        })
    }

    /// Takes out what a client sent under these names: nobody vouches for it.
    pub fn strip(headers: &mut HeaderMap) {
        // Few requests have any header of ours, and looking for one costs less than for all.
        if headers.keys().any(|name| name.as_str().starts_with(OURS)) {
            for name in &ALL {
                headers.remove(name);
            }
        }
    }
}

fn class(value: &HeaderValue) -> Result<Priority, MarksError> {
    let known = value.to_str().ok().and_then(Priority::of);
    known.ok_or_else(|| no("x-meridian-priority", value, "priority class"))
}

fn residency(value: &HeaderValue) -> Result<Vec<Rule>, MarksError> {
    let read = value.to_str().ok().and_then(rules::read);
    read.ok_or_else(|| no("x-meridian-rules", value, "list of residency rules"))
}

fn no(name: &'static str, value: &HeaderValue, wanted: &'static str) -> MarksError {
    let value = String::from_utf8_lossy(value.as_bytes()).chars().take(MOST_SHOWN).collect();
    MarksError::Value { name, value, wanted }
}

fn number(name: &'static str, value: &HeaderValue) -> Result<u64, MarksError> {
    let text = value.to_str().ok();
    text.and_then(|text| text.parse().ok()).ok_or_else(|| no(name, value, "whole number"))
}

#[cfg(test)]
mod tests {
    use meridian_routing::residency::Term;

    use super::*;

    fn marks() -> Marks {
        Marks {
            hops: 1,
            tenant: Some(HeaderValue::from_static("acme")),
            key: u64::MAX,
            budget: Some(Duration::from_millis(250)),
            model: Some(HeaderValue::from_static("org/model")),
            continues: true,
            rules: vec![Rule {
                name: "eu-only".to_owned(),
                run_in: vec![Term::Region("eu".to_owned())],
                ..Rule::default()
            }],
            priority: Priority::Low,
        }
    }

    fn written(change: impl FnOnce(&mut HeaderMap)) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert("traceparent", HeaderValue::from_static("00-1-2-01"));
        marks().write(&mut headers);
        change(&mut headers);
        headers
    }

    // What is written is read as the same, and nothing of it stays for a replica to see.
    #[test]
    fn read_back() {
        let mut headers = written(|_| {});
        assert_eq!(Marks::take(&mut headers), Ok(marks()));
        assert_eq!(headers.keys().map(HeaderName::as_str).collect::<Vec<_>>(), ["traceparent"]);
        let bare = Marks {
            tenant: None,
            key: 7,
            budget: None,
            model: None,
            continues: false,
            hops: 1,
            rules: Vec::new(),
            priority: Priority::Normal,
        };
        bare.write(&mut headers);
        assert_eq!(Marks::take(&mut headers), Ok(bare));
    }

    // A client's own are taken out, and its other headers stay, those of ours that it may send too.
    #[test]
    fn stripped() {
        let mut headers = written(|h| {
            h.insert("x-meridian-dry-run", HeaderValue::from_static("true"));
        });
        Marks::strip(&mut headers);
        let mut left: Vec<_> = headers.keys().map(HeaderName::as_str).collect();
        left.sort_unstable();
        assert_eq!(left, ["traceparent", "x-meridian-dry-run", "x-meridian-priority"]);
    }

    // No forward, one of another version, one that was sent on before, and nonsense are told apart.
    #[test]
    fn refused() {
        let set = |name: &'static str, value: &'static str| {
            Marks::take(&mut written(|h| {
                h.insert(name, HeaderValue::from_static(value));
            }))
            .expect_err("is no forward")
        };
        let none = Marks::take(&mut HeaderMap::new());
        assert_eq!(none, Err(MarksError::None));
        assert_eq!(set("x-meridian-forward", "2"), MarksError::Version { theirs: 2 });
        assert_eq!(set("x-meridian-hops", "2"), MarksError::Hops(2));
        assert_eq!(set("x-meridian-hops", "0"), MarksError::Hops(0));
        let error = set("x-meridian-budget-ms", "soon").to_string();
        assert_eq!(error, "x-meridian-budget-ms: `soon` is no whole number");
        assert!(matches!(set("x-meridian-key", "-1"), MarksError::Value { .. }));
        // A rule that is not understood is no rule left out.
        let error = set("x-meridian-rules", "eu-only").to_string();
        assert_eq!(error, "x-meridian-rules: `eu-only` is no list of residency rules");
    }
}
