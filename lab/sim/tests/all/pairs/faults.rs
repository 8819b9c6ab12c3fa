//! Faults of either replica of a pair, before, during and after its leg. The client gets its answer
//! after each of them, and no KV stays held for longer than its lease.

use std::sync::Arc;

use meridian_base::Time;
use meridian_routing::{Role, policy};
use meridian_sim::{Fate, Fault, Load, Record, Report, Scenario, Source, System, Topology, Wan};
use meridian_workload::{Sessions, open_loop};

use super::{Duration, LONG, ran, replica, seconds, world};

/// One way within the region, so long that each step has a time of its own.
const WAY: Duration = Duration::from_millis(100);
const PREFILL: usize = 0;
const FIRST_DECODE: usize = 1;

/// One long prompt at 5 s, which is split between one prefill replica, the first of all, and the
/// first of two decode replicas. Its KV takes 1.7 s.
fn one_prompt(faults: Vec<(Time, Fault)>) -> Scenario {
    let policy = policy::find("least_outstanding").expect("a policy");
    let long = Sessions { turns: 1, system_bytes: 0, question_bytes: LONG * 4, max_tokens: 50 };
    let long = open_loop(Arc::new(long), [seconds(5)].into_iter(), 7, 0);
    let pool = |role, n| vec![replica(role, 10.0); n];
    let mut scenario = world(1, 2, seconds(1));
    scenario.wan = Wan { rtt_ms: vec![vec![200.0]], jitter: 0.0, loss: 0.0 };
    scenario.replicas = [pool(Role::Prefill, 1), pool(Role::Decode, 2)].concat();
    scenario.system = System::usual(policy, Topology::RegionLocal);
    scenario.loads =
        vec![Load { region: 0, source: Source::Open(Box::new(long)), may_run_in: None }];
    scenario.measure.window = seconds(60);
    scenario.faults = faults;
    scenario
}

/// When the decode engine asks for the KV, if nothing fails, and the middle of the transfer. The
/// prefill engine has answered two ways before.
fn times() -> (Time, Time) {
    let report = ran(one_prompt(Vec::new()));
    let request = report.requests[0];
    let way = request.crossing.expect("it is split");
    assert_eq!((request.replica, request.attempts), (FIRST_DECODE as u32, 1));
    let asked = request.sent + request.ttft - way.time - WAY * 2;
    (asked, asked + way.time / 2)
}

/// The request and the report of a run with a fault from a time on, which is mended after a while.
fn broken(at: Time, fault: Fault, after: Duration, mend: Fault) -> (Record, Report) {
    let report = ran(one_prompt(vec![(at, fault), (at + after, mend)]));
    assert_eq!(report.requests.len(), 1);
    let request = report.requests[0];
    assert_eq!(request.fate, Fate::Done, "{fault:?}");
    (request, report)
}

fn dead(at: Time, replica: usize) -> (Record, Report) {
    broken(at, Fault::ReplicaDown(replica), seconds(20), Fault::ReplicaUp(replica))
}

fn suspended(at: Time, replica: usize) -> (Record, Report) {
    broken(at, Fault::ReplicaStopped(replica), seconds(20), Fault::ReplicaContinued(replica))
}

// The prefill replica dies while it computes, after its answer, or while its KV is read. Each time a
// decode replica computes the prompt itself.
#[test]
fn prefill_dies() {
    let (asked, middle) = times();
    for at in [asked - WAY * 4, asked - WAY, middle] {
        let (request, report) = dead(at, PREFILL);
        assert_eq!((request.crossing, request.attempts), (None, 2), "{at:?}");
        assert_eq!(report.leases_expired, 0);
    }
}

// It is suspended instead. While it computes, its probes show it. After its answer, the decode
// engine gives up after 5 s. During the transfer nothing happens: the cards need no process.
#[test]
fn prefill_is_suspended() {
    let (asked, middle) = times();
    let (request, _) = suspended(asked - WAY * 4, PREFILL);
    assert_eq!((request.crossing, request.attempts), (None, 2));
    let (request, _) = suspended(asked - WAY, PREFILL);
    assert_eq!((request.crossing, request.attempts), (None, 2));
    assert!(request.ttft > seconds(5), "{:?}", request.ttft);
    let (request, _) = suspended(middle, PREFILL);
    assert!(request.crossing.is_some() && request.attempts == 1);
}

// The decode replica dies during the prefill. The request does not reach it, and is split again; the
// other decode replica gives the first KV back. Or it dies while it fetches: then another one
// computes the prompt, and the KV stays held for its lease.
#[test]
fn decode_dies() {
    let (asked, middle) = times();
    let (request, report) = dead(asked - WAY * 4, FIRST_DECODE);
    assert!(request.crossing.is_some() && request.replica as usize != FIRST_DECODE);
    assert_eq!((request.attempts, report.leases_expired), (2, 0));
    let (request, report) = dead(middle, FIRST_DECODE);
    assert_eq!((request.crossing, request.attempts), (None, 2));
    assert_ne!(request.replica as usize, FIRST_DECODE);
    assert_eq!(report.leases_expired, 1);
    let held = |at: Time| report.samples.iter().find(|s| s.replica == 0 && s.at >= at);
    let used = |seconds: u64| held(Time::from_millis(seconds * 1000)).map(|s| s.kv_used > 0.0);
    assert_eq!((used(30), used(40)), (Some(true), Some(false)));
}

// It is suspended: its probes show it, and another one serves the request.
#[test]
fn decode_is_suspended() {
    let (asked, middle) = times();
    for at in [asked - WAY, middle] {
        let (request, _) = suspended(at, FIRST_DECODE);
        assert_ne!(request.replica as usize, FIRST_DECODE);
        assert_eq!(request.attempts, 2);
    }
}

// A card fails. Before the transfer, the decode engine waits 5 s for the first byte; during it, it
// learns at once. A decode replica then computes the prompt, and the KV is kept for its lease.
#[test]
fn a_card_fails() {
    let (asked, middle) = times();
    for card in [PREFILL, FIRST_DECODE] {
        let cut = |at| broken(at, Fault::CardDown(card), seconds(20), Fault::CardUp(card));
        let (request, report) = cut(asked - WAY);
        assert_eq!((request.crossing, request.attempts), (None, 2));
        assert!(request.ttft > seconds(5), "{:?}", request.ttft);
        assert_eq!(report.leases_expired, 1);
        let (request, report) = cut(middle);
        assert_eq!((request.crossing, request.attempts), (None, 2));
        assert!(request.ttft < seconds(5), "{:?}", request.ttft);
        assert_eq!(report.leases_expired, 1);
    }
}

// The gateway dies, and with it both connections. An engine that has the request stops at once: the
// prefill engine holds nothing, the decode engine frees the KV there. Between the legs none has it,
// and the KV is kept for its lease.
#[test]
fn a_gateway_dies() {
    let (asked, middle) = times();
    for (at, expired) in [(asked - WAY * 4, 0), (asked - WAY, 1), (middle, 0)] {
        let (down, up) = (Fault::GatewaysDown(0), Fault::GatewaysUp(0));
        let report = ran(one_prompt(vec![(at, down), (at + seconds(1), up)]));
        let fates: Vec<Fate> = report.requests.iter().map(|r| r.fate).collect();
        assert_eq!((fates, report.leases_expired), (vec![Fate::Lost], expired), "{at:?}");
    }
}

// The fetch takes longer than a lease of 1 s. The
// decode engine extends it, and nothing expires.
#[test]
fn a_long_fetch_keeps_its_lease() {
    let mut scenario = one_prompt(Vec::new());
    for replica in &mut scenario.replicas {
        replica.transfer.lease = seconds(1);
    }
    let report = ran(scenario);
    assert!(report.requests[0].crossing.is_some_and(|way| way.time > seconds(1)));
    assert_eq!(report.leases_expired, 0);
}
