//! Headers on a forwarded request, in addition to the client's.
//!
//! They count only on a connection with a certificate of the fleet. If a client sends headers with
//! these names, they are removed before anything reads them ([`Marks::strip`]).
//!
//! Deliberately not here: the trace and the request's id. They have headers of their own, which are
//! the client's or were set by the first gateway.

use std::time::Duration;

use http::header::{HeaderMap, HeaderName, HeaderValue};

use meridian_base::Priority;
use meridian_base::residency::Rule;

use super::hello::MAJOR;
use super::rules;

/// The version of the protocol; it also marks the request as a forward.
const FORWARD: HeaderName = HeaderName::from_static("x-meridian-forward");
const HOPS: HeaderName = HeaderName::from_static("x-meridian-hops");
const TENANT: HeaderName = HeaderName::from_static("x-meridian-tenant");
const KEY: HeaderName = HeaderName::from_static("x-meridian-key");
const BUDGET: HeaderName = HeaderName::from_static("x-meridian-budget-ms");
const MODEL: HeaderName = HeaderName::from_static("x-meridian-model");
const CONTINUES: HeaderName = HeaderName::from_static("x-meridian-continues");
const RULES: HeaderName = HeaderName::from_static("x-meridian-rules");
const PRIORITY: HeaderName = HeaderName::from_static("x-meridian-priority");
/// An engine died under the request, here or before: on a forward, and on a peer's refusal of one.
pub const DIED: HeaderName = HeaderName::from_static("x-meridian-died");
/// Headers that a client may not send. It may send a class: it can only lower its own.
static ALL: [HeaderName; 9] = [FORWARD, HOPS, TENANT, KEY, BUDGET, MODEL, CONTINUES, RULES, DIED];

/// The prefix of all these names.
const OURS: &str = "x-meridian-";
/// Most characters of an invalid value that an error shows.
const MOST_SHOWN: usize = 40;

/// A gateway's statements about a request that it forwards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Marks {
    /// Number of forwards, including this one: always 1.
    pub hops: u8,
    /// The tenant's name, as the first gateway knows it.
    pub tenant: Option<HeaderValue>,
    /// Hash of the affinity key, so that both regions use the same rings and sessions.
    pub key: u64,
    /// Time until the answer's first byte must leave the peer; none without an objective.
    pub budget: Option<Duration>,
    /// The model's name, if the body names none.
    pub model: Option<HeaderValue>,
    /// The request resumes a chat that broke off: only an engine that can continue messages may
    /// serve it.
    pub continues: bool,
    /// An engine's connection broke while serving it: one more engine may get it. Older gateways
    /// send none, and ignore it.
    pub died: bool,
    /// The residency rules that match it in the first gateway's configuration.
    pub rules: Vec<Rule>,
    /// Its priority class, as the first gateway knows it. Older gateways send none, and ignore it.
    pub priority: Priority,
}

/// Why a request on the peer port is not a valid forward.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MarksError {
    /// It is not marked as a forward.
    #[error(
        "x-meridian-forward: is missing; this port serves only requests that a gateway forwards"
    )]
    None,
    /// Another major version of the protocol.
    #[error(
        "x-meridian-forward: the peer uses version {theirs} of the peer protocol, and this gateway {MAJOR}; update the older one"
    )]
    Version {
        /// The version received.
        theirs: u32,
    },
    /// It was already forwarded once.
    #[error("x-meridian-hops: is {0}; a request is forwarded once, so it must be 1")]
    Hops(u8),
    /// A value that cannot be read.
    #[error("{name}: `{value}` is not a {wanted}")]
    Value {
        /// The header's name.
        name: &'static str,
        /// The start of the value.
        value: String,
        /// The expected form.
        wanted: &'static str,
    },
}

impl Marks {
    /// Adds the marks to a request's headers.
    ///
    /// # Panics
    /// If the request was forwarded before.
    pub fn write(&self, headers: &mut HeaderMap) {
        assert_eq!(self.hops, 1, "a request is forwarded once");
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
            (DIED, self.died.then(|| HeaderValue::from_static("1"))),
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

    /// Removes and returns the marks from the headers of a peer's request.
    ///
    /// # Errors
    /// If the request is not a forward, or not a valid one.
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
            died: headers.remove(&DIED).is_some(),
        })
    }

    /// Removes headers with these names from a client's request: a client can't vouch for them.
    pub fn strip(headers: &mut HeaderMap) {
        // Few requests have any of these headers, and one check for the prefix costs less than a
        // lookup of each name.
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
    use meridian_base::residency::Term;

    use super::*;

    fn marks() -> Marks {
        Marks {
            hops: 1,
            tenant: Some(HeaderValue::from_static("acme")),
            key: u64::MAX,
            budget: Some(Duration::from_millis(250)),
            model: Some(HeaderValue::from_static("org/model")),
            continues: true,
            died: true,
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

    // Written marks read back as the same, and none of them stay for a replica to see.
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
            died: false,
            hops: 1,
            rules: Vec::new(),
            priority: Priority::Normal,
        };
        bare.write(&mut headers);
        assert_eq!(Marks::take(&mut headers), Ok(bare));
    }

    // A client's marks are removed. Its other headers stay, including those of ours that clients
    // may send.
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

    // A request without marks, one of another version, one that was already forwarded, and invalid
    // values get different errors.
    #[test]
    fn refused() {
        let set = |name: &'static str, value: &'static str| {
            Marks::take(&mut written(|h| {
                h.insert(name, HeaderValue::from_static(value));
            }))
            .expect_err("is not a forward")
        };
        let none = Marks::take(&mut HeaderMap::new());
        assert_eq!(none, Err(MarksError::None));
        assert_eq!(set("x-meridian-forward", "2"), MarksError::Version { theirs: 2 });
        assert_eq!(set("x-meridian-hops", "2"), MarksError::Hops(2));
        assert_eq!(set("x-meridian-hops", "0"), MarksError::Hops(0));
        let error = set("x-meridian-budget-ms", "soon").to_string();
        assert_eq!(error, "x-meridian-budget-ms: `soon` is not a whole number");
        assert!(matches!(set("x-meridian-key", "-1"), MarksError::Value { .. }));
        // An unreadable rule is an error, not an ignored rule.
        let error = set("x-meridian-rules", "eu-only").to_string();
        assert_eq!(error, "x-meridian-rules: `eu-only` is not a list of residency rules");
    }
}
