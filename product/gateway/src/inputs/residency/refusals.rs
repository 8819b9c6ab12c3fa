//! Refusals for requests whose rules leave no place to serve them, now or ever.

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use meridian_base::residency::{Residence, Rule};
use meridian_protocol::peer::shown;
use meridian_routing::{Closed, RejectWhy};

use crate::refusal::Refusal;

/// The rules permit no place that the configuration or the registry knows: final.
pub(crate) fn not_permitted(residence: &Residence) -> Refusal {
    let text = format!(
        "no configured region, peer or replica is in a place where {} this request to be served; add one there, or widen the rule in residency.rules",
        permit(residence)
    );
    Refusal::new(StatusCode::FORBIDDEN, RejectWhy::NotPermitted.word(), text)
}

/// A permitted place is known, but none had free capacity in time: a retry may help. `lost` names
/// the peers there that are not connected, if the client may learn about the fleet.
pub(crate) fn held_too_long(
    residence: &Residence,
    limit: Duration,
    retry_after: Duration,
    closed: Closed,
    lost: &[String],
) -> Refusal {
    let text = format!(
        "no replica {} within {} ms in a place where {} this request to be served{}",
        if closed.is_outage() { "took requests" } else { "had free capacity" },
        limit.as_millis(),
        permit(residence),
        match lost {
            [] if closed.is_outage() => {
                ": those there are down, failing or draining; see GET /admin/status for their state"
                    .to_owned()
            }
            [] => "; retry later, start a replica or a gateway there, or add replicas".to_owned(),
            lost => format!(
                ": {} not connected; retry later, and see `problem` of the peers in GET /admin/status",
                peers(lost)
            ),
        }
    );
    let code = RejectWhy::HeldTooLong { limit, closed }.word();
    Refusal::new(StatusCode::SERVICE_UNAVAILABLE, code, text).retry_after(retry_after)
}

/// The answer comes from a place that the rules do not permit, as far as any gateway but the peer that
/// sent it can tell: the client does not get it.
pub(crate) fn breached(residence: &Residence) -> Refusal {
    let text = format!(
        "an answer came from outside the places where {} this request to be served, and is not delivered; see `breaches` in GET /admin/status and the log of the gateway",
        permit(residence)
    );
    Refusal::new(StatusCode::BAD_GATEWAY, "residency_breach", text)
}

/// The peers, and the verb.
fn peers(names: &[String]) -> String {
    match names {
        [name] => format!("peer {name} is"),
        names => format!("peers {} are", names.join(", ")),
    }
}

/// The rules with their places, and the verb.
fn permit(residence: &Residence) -> String {
    let one = |rule: &Arc<Rule>| {
        let places: Vec<String> = rule.run_in.iter().map(shown).collect();
        format!("rule `{}` (in {})", rule.name, places.join(", "))
    };
    let rules: Vec<String> = residence.rules().iter().map(one).collect();
    let verb = if rules.len() == 1 { "permits" } else { "permit" };
    format!("{} {verb}", rules.join(" and "))
}
