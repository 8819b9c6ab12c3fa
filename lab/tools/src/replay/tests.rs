use std::collections::BTreeMap;

use meridian_base::Time;
use meridian_workload::trace::{Outcome, TraceRequest};

use super::ANSWERS;
use super::plan::Plan;

/// A request at a second, with the tokens and blocks of its prompt.
fn request(at: u64, tokens: u32, ids: &[u64], session: u64, tenant: u64) -> TraceRequest {
    TraceRequest {
        block_tokens: 8,
        hash_ids: ids.to_vec(),
        session: Some(session),
        tenant: Some(tenant),
        ..TraceRequest::new(Time::from_millis(at * 1000), tokens, 5)
    }
}

fn plan(requests: Vec<TraceRequest>, chained: bool) -> anyhow::Result<Plan> {
    Plan::of(requests, (1.0, chained.then_some(ANSWERS)), 1)
}

// Each request is a program at its own time with the recorded tokens, its session and its tenant;
// a prompt that continues another one starts with all of its text, and no reply is known. Chained,
// the requests of a session are one program.
#[test]
fn requests_become_programs() {
    let requests = vec![
        request(0, 12, &[1, 2], 7, 3),
        request(2, 30, &[1, 9, 4, 5], 7, 3),
        request(5, 8, &[6], 8, 4),
    ];
    let open = plan(requests.clone(), false).unwrap();
    assert_eq!(open.programs.len(), 3);
    assert_eq!(open.for_simulator().last.as_secs(), 5);
    let tokens = |at: usize| {
        let node = &open.programs[at].1.nodes[0];
        node.adds.iter().map(|segment| segment.bytes / 4).sum::<u32>()
    };
    assert_eq!([tokens(0), tokens(1), tokens(2)], [12, 30, 8]);
    let [first, next] = [0, 1].map(|at| open.programs[at].1.nodes[0].adds.clone());
    assert_eq!(first[..], next[..first.len()]);
    let one = &open.programs[0].1;
    assert_eq!((one.tenant, one.nodes[0].max_tokens), (3, 5));
    assert_eq!(one.session, open.programs[1].1.session);
    assert!(open.programs.iter().all(|(_, p)| p.nodes[0].reply.is_none()));
    let chained = plan(requests, true).unwrap();
    let sizes: Vec<usize> = chained.programs.iter().map(|(_, p)| p.nodes.len()).collect();
    assert_eq!(sizes, [2, 1]);
}

// At twice the speed, sessions start in half the time, and a turn still waits for the answer that it
// waited for when it was recorded.
#[test]
fn chained_turns_wait_at_any_speed() {
    let e2e = Some(std::time::Duration::from_millis(1500));
    let at = |at, session| TraceRequest { e2e, ..request(at, 12, &[1, 2], session, 3) };
    let recorded = vec![at(0, 7), at(2, 7), at(4, 8)];
    let mut faster = recorded.clone();
    faster.iter_mut().for_each(|request| request.at = request.at.scaled(0.5));
    let plans = [(1.0, recorded), (2.0, faster)]
        .map(|(speed, requests)| Plan::of(requests, (speed, Some(ANSWERS)), 1).unwrap());
    for (plan, start) in plans.iter().zip([4000, 2000]) {
        let [(_, first), (other, _)] = &plan.programs[..] else { panic!("two sessions") };
        let levels: Vec<_> = first.nodes.iter().map(|n| (n.level, n.think.as_millis())).collect();
        assert_eq!(levels, [(0, 0), (1, 500)]);
        assert_eq!(
            (*other, plan.for_simulator().last.as_millis()),
            (Time::from_millis(start), start.into())
        );
    }
}

// Requests that the gateway refused as client errors are left out; a trace of nothing else is
// reported.
#[test]
fn client_errors_are_not_sent() {
    let bad = TraceRequest { outcome: Some(Outcome::ClientError), ..request(0, 12, &[1], 7, 3) };
    let both = plan(vec![bad.clone(), request(1, 12, &[1], 7, 3)], false).unwrap();
    assert_eq!(both.programs.len(), 1);
    let error = plan(vec![bad], false).err().unwrap().to_string();
    assert!(error.contains("no requests that can be sent"), "{error}");
}

// Tenants without a key are named with the number of their requests.
#[test]
fn tenants_need_keys() {
    let requests = vec![request(0, 12, &[1], 7, 3), request(1, 12, &[1], 8, 0xab)];
    let plan = plan(requests, false).unwrap();
    let keys = BTreeMap::from([(3, "secret".to_owned())]);
    let error = plan.tenants_have(&keys).err().unwrap().to_string();
    assert!(
        error.contains("1 of 2 tenants") && error.contains("00000000000000ab (1 requests)"),
        "{error}"
    );
    assert!(!error.contains("secret"));
    let keys = BTreeMap::from([(3, String::new()), (0xab, String::new())]);
    assert!(plan.tenants_have(&keys).is_ok());
}
