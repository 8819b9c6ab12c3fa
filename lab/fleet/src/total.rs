//! All regions' counts, as if they were one gateway's.
//!
//! A forwarded request is a request of two gateways. The clients see one, so a gateway's requests
//! from its peers are left out here. Tokens are those of the replicas, each of which counts an
//! answer's tokens once.

use meridian_protocol::admin::{Prefix, Residency, RuleCounts, Status};

use crate::page::Seen;

/// The sum over the regions whose gateways are alive.
pub(crate) fn total(seen: &[Seen]) -> Status {
    let living: Vec<&Status> = seen.iter().filter_map(|seen| seen.status.as_ref()).collect();
    total_of(&living)
}

/// The sum over these gateways.
#[must_use]
pub fn total_of(gateways: &[&Status]) -> Status {
    if let [one] = gateways {
        return (*one).clone();
    }
    let mut all = Status::default();
    for status in gateways {
        // Regions may differ: the registry changes one at a time.
        if !all.policy.split(", ").any(|policy| policy == status.policy) {
            let between = if all.policy.is_empty() { "" } else { ", " };
            all.policy = format!("{}{between}{}", all.policy, status.policy);
        }
        let (sum, one) = (&mut all.requests, &status.requests);
        sum.accepted += one.accepted;
        sum.done += one.done;
        sum.client_error += one.client_error;
        sum.rejected += one.rejected;
        sum.failed += one.failed;
        sum.cancelled += one.cancelled;
        sum.in_flight += one.in_flight;
        for taken in status.peers.iter().map(|peer| &peer.taken) {
            for (sum, taken) in [
                (&mut sum.accepted, taken.begun),
                (&mut sum.done, taken.done),
                (&mut sum.client_error, taken.client_error),
                (&mut sum.rejected, taken.refused),
                (&mut sum.failed, taken.failed),
                (&mut sum.cancelled, taken.cancelled),
                (&mut sum.in_flight, taken.in_flight),
            ] {
                // A poll may fall between the two counts of one end.
                *sum = sum.saturating_sub(taken);
            }
        }
        let (sum, one) = (&mut all.prefix, &status.prefix);
        sum.prompt_tokens += one.prompt_tokens;
        sum.matched_tokens += one.matched_tokens;
        let cached = status.replicas.iter().fold(Prefix::default(), |mut sum, replica| {
            sum.known_prompt_tokens += replica.prompt_tokens;
            sum.cached_tokens += replica.cached_tokens;
            sum
        });
        sum.known_prompt_tokens += cached.known_prompt_tokens;
        sum.cached_tokens += cached.cached_tokens;
        if let Some(residency) = &status.residency {
            add(all.residency.get_or_insert_default(), residency);
        }
        all.held += status.held;
        all.replicas.extend(status.replicas.iter().cloned());
    }
    all
}

/// A forwarded request counts both where it was sent from and where it was served.
fn add(sum: &mut Residency, one: &Residency) {
    sum.breaches += one.breaches;
    for row in &one.rules {
        let known = sum.rules.iter().position(|known| known.rule == row.rule);
        let at = known.unwrap_or_else(|| {
            sum.rules.push(RuleCounts { rule: row.rule.clone(), ..RuleCounts::default() });
            sum.rules.len() - 1
        });
        let known = &mut sum.rules[at];
        known.served += row.served;
        known.sent += row.sent;
        known.refused += row.refused;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use meridian_protocol::admin::{Forwards, Peer, Replica, Requests};

    fn seen(accepted: u64, taken: u64, tokens: u64) -> Seen {
        let requests = Requests { accepted, done: accepted, ..Requests::default() };
        let taken = Forwards { begun: taken, done: taken, ..Forwards::default() };
        let peer = Peer { taken, ..Peer::default() };
        let replica = Replica { prompt_tokens: tokens, ..Replica::default() };
        let status =
            Status { requests, peers: vec![peer], replicas: vec![replica], ..Status::default() };
        Seen { status: Some(status), ..Seen::default() }
    }

    // Five clients' requests, two of which were forwarded from the first gateway to the second.
    #[test]
    fn what_was_sent_on_counts_once() {
        let all = total(&[seen(5, 0, 30), seen(2, 2, 20), Seen::default()]);
        assert_eq!((all.requests.accepted, all.requests.done), (5, 5));
        assert_eq!(all.prefix.known_prompt_tokens, 50);
    }
}
