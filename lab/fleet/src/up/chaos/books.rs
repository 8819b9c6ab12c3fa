//! The counts of clients, gateways and engines after a scenario.
//!
//! Each party counts on its own. If no counting process was killed and nothing could be lost on a
//! link, the counts are equal to the last request. Each fault widens the allowed range only by the
//! difference that it can explain. A killed process loses its counts, so for it only the bound from
//! the others' counts remains.

use meridian_protocol::admin::{Forwards, Peer, Requests, Status};

use super::super::arrange;
use super::super::region::Region;
use super::super::verdict;
use super::checks::Checks;
use super::scenario::Promise;
use crate::page::Seen;
use crate::total::total;
use crate::{ClientCounts, EngineCounts, Report};

/// The current counts of gateways and engines.
pub(super) struct Parties {
    pub(super) gateways: Vec<Seen>,
    /// By the replica's name.
    pub(super) engines: Vec<(String, EngineCounts)>,
}

impl Parties {
    /// Requests still in flight, one sentence each.
    pub(super) fn restless(&self) -> Vec<String> {
        let mut all = Vec::new();
        let mut check = |count: u64, what: String| {
            if count > 0 {
                all.push(format!("{what}: {count} that never finish"));
            }
        };
        for seen in &self.gateways {
            let Some(status) = &seen.status else { continue };
            let name = &seen.name;
            check(status.requests.in_flight, format!("gateway of {name}, requests in flight"));
            check(status.held.into(), format!("gateway of {name}, held"));
            for replica in &status.replicas {
                let there = u64::from(replica.outstanding) + u64::from(replica.running);
                check(there, format!("gateway of {name}, at {}", replica.url));
                let of_siblings = replica.of_siblings.into();
                check(of_siblings, format!("gateway of {name}, of siblings at {}", replica.url));
            }
            for peer in &status.peers {
                check(
                    peer.sent.in_flight,
                    format!("gateway of {name}, forwarded to {}", peer.region),
                );
                let from = format!("gateway of {name}, accepted from {}", peer.region);
                check(peer.taken.in_flight, from);
            }
        }
        for (name, engine) in &self.engines {
            check(engine.outstanding, format!("engine {name}, outstanding"));
        }
        all
    }

    /// Answers from places that a residency rule forbids.
    pub(super) fn breaches(&self) -> u64 {
        let gateways = self.gateways.iter().filter_map(|seen| seen.status.as_ref());
        gateways.filter_map(|status| status.residency.as_ref()).map(|rules| rules.breaches).sum()
    }

    /// Complete answers that the living gateways got from the replica at this address.
    fn had_from(&self, url: &str) -> u64 {
        let gateways = self.gateways.iter().filter_map(|seen| seen.status.as_ref());
        let replicas = gateways.flat_map(|status| &status.replicas);
        replicas.filter(|replica| replica.url == url).map(|replica| replica.done).sum()
    }
}

/// The differences that the faults of a scenario can explain.
struct Excuses {
    /// Gateways were killed or restarted.
    gateways: bool,
    /// Bytes may be lost between gateways, or between clients and gateways of other regions.
    links: bool,
    /// Ends that a client and others may see differently: it disconnected, its answer broke off, or
    /// it retried elsewhere.
    at_clients: u64,
    /// Retries by gateways.
    retries: u64,
}

/// Compares the counts. `links` says whether bytes may be lost on links.
pub(super) fn check(
    checks: &mut Checks,
    promise: Promise,
    links: bool,
    regions: &[Region],
    parties: &Parties,
    reports: &[Option<Report>],
) {
    let client = verdict::clients(reports).unwrap_or_default();
    let all = total(&parties.gateways);
    let living = || parties.gateways.iter().filter_map(|seen| seen.status.as_ref());
    let excuses = Excuses {
        gateways: regions.iter().any(|region| region.restarts > 0),
        links,
        at_clients: client.aborted + client.errors + client.moved,
        retries: living().map(retries).sum(),
    };
    let with_clients = regions.iter().zip(reports).filter(|(region, _)| !region.is_further());
    let of_loads: Vec<_> = with_clients.map(|(_, report)| report.clone()).collect();
    of_clients(checks, promise, &client, &of_loads);
    parties.gateways.iter().for_each(|seen| of_gateway(checks, seen));
    between(checks, regions, &parties.gateways, &excuses);
    of_all_gateways(checks, &client, &all.requests, &excuses);
    of_engines(checks, regions, parties, &client, &excuses);
}

fn of_clients(checks: &mut Checks, promise: Promise, c: &ClientCounts, reports: &[Option<Report>]) {
    checks.range("clients: finished requests", c.sent, c.ok + c.aborted + c.errors, c.sent);
    let lost = |report: &Report| report.rows.first().and_then(|row| row.lost);
    let lost = reports.iter().map(|report| report.as_ref().and_then(lost).unwrap_or(1)).sum();
    checks.range("clients: unfinished requests", 0, lost, 0);
    checks.some("clients: complete answers", c.ok);
    let kinds = reports.iter().flatten().filter_map(|report| report.errors.get("http_503"));
    let refused = kinds.sum();
    let (errors, bare) = match promise {
        Promise::NothingLost => (0, 0),
        Promise::OnlyStarted => (u64::MAX, 0),
        Promise::StartedOrRefused => (u64::MAX, refused),
        Promise::Nothing => (u64::MAX, u64::MAX),
    };
    checks.range("clients: failed requests", 0, c.errors, errors);
    checks.range("clients: of them, without a byte of an answer", 0, c.bare, bare);
}

/// A gateway counts one end for each request and each forward.
fn of_gateway(checks: &mut Checks, seen: &Seen) {
    let Some(status) = &seen.status else { return };
    let (name, r) = (&seen.name, &status.requests);
    checks.range(format!("gateway of {name}: finished requests"), r.accepted, ends(r), r.accepted);
    for peer in &status.peers {
        for (word, f) in [("sent to", &peer.sent), ("taken from", &peer.taken)] {
            let what = format!("gateway of {name}: ends of {word} {}", peer.region);
            checks.range(what, f.begun, ends_of_forwards(f), f.begun);
        }
    }
}

/// One gateway's forwards equal the other's requests from it. On a link that was cut, an
/// attempt may have started here without arriving there, and an answer may have ended there
/// without arriving here; never the other way round.
fn between(checks: &mut Checks, regions: &[Region], seen: &[Seen], excuses: &Excuses) {
    for (from, a) in regions.iter().zip(seen) {
        for (to, b) in regions.iter().zip(seen) {
            let (Some(a), Some(b)) = (&a.status, &b.status) else { continue };
            if !arrange::are_far(from, to) || from.restarts + to.restarts > 0 {
                continue;
            }
            let is = |region: &Region, p: &Peer| p.name == Region::gateway_name(&region.name);
            let sent = a.peers.iter().find(|p| is(to, p)).map(|p| p.sent);
            let taken = b.peers.iter().find(|p| is(from, p)).map(|p| p.taken);
            let (sent, taken) = (sent.unwrap_or_default(), taken.unwrap_or_default());
            let way = format!("{} to {}", from.name, to.name);
            let lost = if excuses.links { sent.failed + sent.cancelled } else { 0 };
            let least = sent.begun - lost.min(sent.begun);
            checks.range(format!("{way}: started, as accepted"), least, taken.begun, sent.begun);
            let most = sent.done + lost.max(sent.cancelled);
            checks.range(format!("{way}: done, as taken"), sent.done, taken.done, most);
        }
    }
}

fn of_all_gateways(checks: &mut Checks, c: &ClientCounts, r: &Requests, excuses: &Excuses) {
    let least = |n: u64| if excuses.gateways { 0 } else { n };
    let accepted = least(c.sent - c.aborted.min(c.sent) - c.bare.min(c.sent));
    checks.range("gateways: accepted", accepted, r.accepted, c.sent + c.moved);
    checks.range("gateways: done", least(c.ok), r.done, c.ok + excuses.at_clients);
}

/// An engine that was never killed has ended at least as many requests as gateways got complete
/// from it, and all engines together at least as many as clients did.
fn of_engines(
    checks: &mut Checks,
    regions: &[Region],
    parties: &Parties,
    c: &ClientCounts,
    excuses: &Excuses,
) {
    let replicas = || regions.iter().flat_map(|region| &region.replicas);
    let unknown = excuses.gateways || excuses.links;
    let slack = if unknown { u64::MAX } else { excuses.at_clients + excuses.retries };
    for (replica, (name, engine)) in replicas().zip(&parties.engines) {
        if replica.restarts == 0 {
            let had = parties.had_from(&replica.url);
            let done = engine.done.unwrap_or(0);
            checks.range(format!("engine {name}: done"), had, done, had.saturating_add(slack));
        }
    }
    let sum = |of: fn(&EngineCounts) -> u64| parties.engines.iter().map(|(_, e)| of(e)).sum();
    let all_alive = replicas().all(|replica| replica.restarts == 0);
    let least = |n| if all_alive { n } else { 0 };
    let most = c.ok.saturating_add(slack);
    checks.range("engines: done", least(c.ok), sum(|e| e.done.unwrap_or(0)), most);
    let most = if slack == 0 { c.output_tokens } else { u64::MAX };
    let made = sum(|e| e.output_tokens);
    checks.range("engines: output tokens", least(c.output_tokens), made, most);
}

/// A gateway's attempts that did not lead to an answer.
fn retries(status: &Status) -> u64 {
    let replicas: u64 = status.replicas.iter().map(|replica| replica.failed + replica.full).sum();
    let peers: u64 = status.peers.iter().map(|p| p.sent.failed + p.sent.refused).sum();
    replicas + peers
}

fn ends(r: &Requests) -> u64 {
    r.done + r.client_error + r.rejected + r.failed + r.cancelled
}

fn ends_of_forwards(f: &Forwards) -> u64 {
    f.done + f.client_error + f.refused + f.failed + f.cancelled
}
