//! Counts answers under the residency rules of their requests, and adds headers that say where they
//! were generated and by which replica.

use http::{HeaderMap, HeaderValue};
use meridian_base::residency::Residence;

use crate::http::headers;
use crate::inputs::residency::{self, Residency, RuleOutcome};
use crate::request::send::destination::{Attempt, Destination};

/// An answer's place, for its headers.
pub(crate) struct Place {
    rules: Option<HeaderValue>,
    region: Option<HeaderValue>,
}

/// Counts an answer. The place of a peer's answer is as reported by the peer.
pub(crate) fn audit(
    residency: &Residency,
    residence: &Residence,
    attempt: &Attempt,
    head: &HeaderMap,
) -> Place {
    let (region, kept) = match &attempt.destination {
        Destination::Replica(member) => (Some(member.region.clone()), RuleOutcome::Served),
        Destination::Peer(link) => {
            let region = head.get(headers::REGION).cloned();
            let region = region.or_else(|| HeaderValue::from_str(link.region()).ok());
            (region, RuleOutcome::Sent)
        }
    };
    let rules = residency::names(residence);
    if rules.is_some() {
        residency.counts.count(residence, kept);
    }
    Place { rules, region }
}

/// Adds headers that say which replica answered, which one computed the prompt if another did, where,
/// and why. For a peer's answer, the replicas and the expected match are as reported by the peer.
pub(crate) fn write(headers: &mut HeaderMap, attempt: &Attempt, place: Place, prompt_tokens: u32) {
    match &attempt.destination {
        Destination::Replica(member) => {
            let matched = headers::prefix_match(attempt.matched, prompt_tokens);
            headers.insert(headers::REPLICA, member.label.clone());
            match &attempt.prefill {
                Some(from) => headers.insert(headers::PREFILL, from.label.clone()),
                // Only a gateway may send this.
                None => headers.remove(headers::PREFILL),
            };
            headers.insert(headers::PREFIX_MATCH, matched);
        }
        Destination::Peer(link) => {
            headers.insert(headers::PEER, link.label.clone());
        }
    }
    headers.insert(headers::REASON, HeaderValue::from_static(attempt.why.word()));
    if let Some(rules) = place.rules {
        headers.insert(headers::RESIDENCY, rules);
    }
    if let Some(region) = place.region {
        headers.insert(headers::REGION, region);
    }
}
