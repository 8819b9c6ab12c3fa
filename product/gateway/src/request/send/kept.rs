//! Checks an answer against the residency rules of its request, before any of it goes to the client.

use meridian_base::residency::Residence;

use crate::http::headers;
use crate::inputs::residency::{self, Residency};
use crate::request::send::destination::{Attempt, Destination};
use crate::request::send::transport::Started;

/// Whether an answer, or a continuation of one, was generated at a place that the rules permit. One
/// that was not is counted as a breach and logged.
pub(crate) fn is_kept(
    residency: &Residency,
    residence: &Residence,
    attempt: &Attempt,
    started: &Started,
) -> bool {
    let head = &started.head.headers;
    let region = head.get(headers::REGION);
    let kept = match (&attempt.known, &attempt.destination) {
        (None, _) => true,
        (Some(known), Destination::Replica(member)) => {
            let mut places = attempt.prefill.iter().chain([member]).map(|member| &member.place);
            places.all(|place| known.permits(residence, place))
        }
        (Some(known), Destination::Peer(link)) => {
            known.was_kept(residence, &link.identity, region, head.get(headers::RESIDENCY))
        }
    };
    if !kept {
        residency.counts.breach();
        let rules = residency::names(residence);
        let peer = match &attempt.destination {
            Destination::Peer(link) => Some(&link.label),
            Destination::Replica(_) => None,
        };
        tracing::error!(
            ?rules,
            ?region,
            ?peer,
            "a residency rule was violated; the answer is not delivered"
        );
    }
    kept
}
