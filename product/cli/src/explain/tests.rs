//! The text of whole explanations.

use expect_test::expect;
use meridian_protocol::admin::{
    Candidate, Decided, Ending, Explanation, Pair, PeerCandidate, ShadowPick, SiblingShare,
};

use super::table::COLUMNS;
use super::{list, one};

const TERMS: [&str; 5] = ["front_ms", "prefill_ms", "others_ms", "steps_ms", "rtt_ms"];

fn candidate(id: u16, terms: &[(&str, f64)]) -> Candidate {
    Candidate {
        id,
        url: format!("http://10.0.0.{id}:8000"),
        role: "both".to_owned(),
        prompt_tokens: 2000,
        kv_used: 0.31,
        terms: terms.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect(),
        ..Candidate::default()
    }
}

/// A candidate that the default policy prices.
fn priced(id: u16, values: [f64; 5]) -> Candidate {
    let terms: Vec<_> = TERMS.into_iter().zip(values).collect();
    Candidate { running: 4, ..candidate(id, &terms) }
}

fn ineligible(id: u16, why: &str) -> Candidate {
    let ineligible = Some(why.to_owned());
    Candidate { ineligible, ..priced(id, [0.0, 200.0, 28.0, 2.8, 0.0]) }
}

fn done() -> Ending {
    Ending {
        outcome: Some("done".to_owned()),
        first_token_ms: Some(95.2),
        total_ms: Some(812.4),
        ..Ending::default()
    }
}

fn failed(outcome: &str, after: f64) -> Ending {
    let outcome = Some(outcome.to_owned());
    Ending { outcome, retried: true, total_ms: Some(after), ..Ending::default() }
}

/// A decision for the first candidate.
fn explanation(candidates: Vec<Candidate>) -> Explanation {
    Explanation {
        id: "first".to_owned(),
        logged_as: "req-efbc564e-1".to_owned(),
        policy: "meridian".to_owned(),
        attempt: 1,
        picked: candidates.first().map(|c| c.url.clone()),
        reason: "lowest-score".to_owned(),
        ending: done(),
        candidates,
        ..Explanation::default()
    }
}

fn peer(name: &str, unavailable: Option<&str>) -> PeerCandidate {
    PeerCandidate {
        name: name.to_owned(),
        unavailable: unavailable.map(str::to_owned),
        matched_tokens: 960.0,
        rtt_ms: 92.0,
        eligible: 3,
        since: 2,
        ..PeerCandidate::default()
    }
}

fn fits(text: &str) {
    for line in text.lines() {
        assert!(line.chars().count() <= COLUMNS, "{} columns: {line}", line.chars().count());
    }
}

/// The text, which fits 100 columns.
fn text(explanation: &Explanation) -> String {
    let text = one::text(explanation, false);
    fits(&text);
    text
}

// A region with one replica.
#[test]
fn one_replica() {
    let only = Candidate { matched_tokens: 1500.0, ..priced(1, [0.0, 50.0, 35.0, 14.0, 0.0]) };
    expect![[r#"
        first: sent to http://10.0.0.1:8000 (lowest-score); done after 812 ms, first token after 95 ms
          policy meridian, attempt 1, prompt of 2000 tokens; req-efbc564e-1 in the gateway's log

          replica          front prefill others steps rtt total ms        matched running pending kv %
        → r1 10.0.0.1:8000   0.0    50.0   35.0  14.0 0.0     99.0 picked    1500       4       0   31
    "#]].assert_eq(&text(&explanation(vec![only])));
}

// The share of other gateways of the region at the picked replica has a line, and a column if there is room.
#[test]
fn siblings() {
    let of_siblings = Some(SiblingShare { outstanding: 2, waiting: 1, front_tokens: 1024.4 });
    let picked = priced(1, [90.0, 50.0, 35.0, 14.0, 0.0]);
    let picked = Candidate { of_siblings, front_tokens: 3000.0, ..picked };
    let other = priced(2, [0.0, 200.0, 35.0, 14.0, 0.0]);
    expect![[r#"
        first: sent to http://10.0.0.1:8000 (lowest-score); done after 812 ms, first token after 95 ms
          policy meridian, attempt 1, prompt of 2000 tokens; req-efbc564e-1 in the gateway's log
          sibling gateways had 2 requests at r1, 1 without a first token, and 1024 of 3000 prefill tokens
            ahead

          replica          front prefill others steps rtt total ms        matched running pending kv %
        → r1 10.0.0.1:8000  90.0    50.0   35.0  14.0 0.0    189.0 picked       0       4       0   31
          r2 10.0.0.2:8000   0.0   200.0   35.0  14.0 0.0    249.0              0       4       0   31
    "#]].assert_eq(&text(&explanation(vec![picked.clone(), other])));
    let picked = Candidate { terms: vec![("outstanding".to_owned(), 5.0)], ..picked };
    let other = candidate(2, &[("outstanding", 7.0)]);
    let text = text(&explanation(vec![picked, other]));
    let columns = text.lines().filter(|line| line.contains("kv %") || line.contains("r1 "));
    let last =
        |line: &str| line.split_whitespace().rev().take(2).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(columns.map(last).collect::<Vec<_>>(), [["siblings'", "%"], ["2", "31"]]);
}

// The shadow's decision is beside the one that was made.
#[test]
fn a_shadow() {
    let only = priced(1, [0.0, 50.0, 35.0, 14.0, 0.0]);
    let mut shadowed = explanation(vec![only]);
    let line = |e: &Explanation| text(e).lines().nth(2).unwrap_or_default().trim().to_owned();
    let mut pick = ShadowPick {
        policy: "chwbl".to_owned(),
        would: "same".to_owned(),
        picked: shadowed.picked.clone(),
        reason: Some("ring".to_owned()),
        matched_tokens: Some(960),
        predicted_first_token_ms: Some(130.0),
        ..ShadowPick::default()
    };
    shadowed.predicted_first_token_ms = Some(64.0);
    shadowed.shadow = Some(pick.clone());
    assert_eq!(line(&shadowed), "shadow policy chwbl does the same");
    pick.would = "other_replica".to_owned();
    pick.picked = Some("http://r2".to_owned());
    shadowed.shadow = Some(pick.clone());
    assert_eq!(
        line(&shadowed),
        "shadow policy chwbl would send to http://r2 (ring), 960 tokens matched there, first token"
    );
    pick =
        ShadowPick { policy: pick.policy, would: "would_wait".to_owned(), ..ShadowPick::default() };
    shadowed.shadow = Some(pick);
    assert_eq!(line(&shadowed), "shadow policy chwbl would queue it");
}

// The picked one is first, then the eligible ones by their total, then those that were not eligible,
// with the reasons.
#[test]
fn several_replicas() {
    let mut several = explanation(vec![
        ineligible(0, "full"),
        priced(1, [0.0, 200.0, 28.0, 2.8, 0.0]),
        priced(2, [812.5, 120.0, 44.4, 2.8, 0.0]),
        Candidate { matched_tokens: 1500.0, ..priced(3, [0.0, 50.0, 35.0, 14.0, 0.0]) },
        ineligible(4, "pinned-elsewhere"),
    ]);
    several.picked = Some("http://10.0.0.3:8000".to_owned());
    several.rules = vec!["eu-only".to_owned()];
    expect![[r#"
        first: sent to http://10.0.0.3:8000 (lowest-score); done after 812 ms, first token after 95 ms
          policy meridian, attempt 1, prompt of 2000 tokens; req-efbc564e-1 in the gateway's log
          residency rules: eu-only

          replica          front prefill others steps rtt total ms                  matched running pending
        → r3 10.0.0.3:8000   0.0    50.0   35.0  14.0 0.0     99.0 picked              1500       4       0
          r1 10.0.0.1:8000   0.0   200.0   28.0   2.8 0.0    230.8                        0       4       0
          r2 10.0.0.2:8000 812.5   120.0   44.4   2.8 0.0    979.7                        0       4       0
          r0 10.0.0.0:8000   0.0   200.0   28.0   2.8 0.0    230.8 full                   0       4       0
          r4 10.0.0.4:8000   0.0   200.0   28.0   2.8 0.0    230.8 pinned-elsewhere       0       4       0
    "#]].assert_eq(&text(&several));
}

// Of 200 candidates, the picked one and the ten best are printed; all of them only when asked.
#[test]
fn many_replicas() {
    let mut candidates: Vec<Candidate> =
        (0..150).map(|id| priced(id, [0.0, 50.0 + f64::from(id), 35.0, 14.0, 0.0])).collect();
    candidates.extend((150..200).map(|id| ineligible(id, "down")));
    candidates.reverse();
    let mut many = explanation(candidates);
    many.picked = Some("http://10.0.0.7:8000".to_owned());
    expect![[r#"
        first: sent to http://10.0.0.7:8000 (lowest-score); done after 812 ms, first token after 95 ms
          policy meridian, attempt 1, prompt of 2000 tokens; req-efbc564e-1 in the gateway's log

          replica            front prefill others steps rtt total ms        matched running pending kv %
        → r7 10.0.0.7:8000     0.0    57.0   35.0  14.0 0.0    106.0 picked       0       4       0   31
          r0 10.0.0.0:8000     0.0    50.0   35.0  14.0 0.0     99.0              0       4       0   31
          r1 10.0.0.1:8000     0.0    51.0   35.0  14.0 0.0    100.0              0       4       0   31
          r2 10.0.0.2:8000     0.0    52.0   35.0  14.0 0.0    101.0              0       4       0   31
          r3 10.0.0.3:8000     0.0    53.0   35.0  14.0 0.0    102.0              0       4       0   31
          r4 10.0.0.4:8000     0.0    54.0   35.0  14.0 0.0    103.0              0       4       0   31
          r5 10.0.0.5:8000     0.0    55.0   35.0  14.0 0.0    104.0              0       4       0   31
          r6 10.0.0.6:8000     0.0    56.0   35.0  14.0 0.0    105.0              0       4       0   31
          r8 10.0.0.8:8000     0.0    58.0   35.0  14.0 0.0    107.0              0       4       0   31
          r9 10.0.0.9:8000     0.0    59.0   35.0  14.0 0.0    108.0              0       4       0   31
          r10 10.0.0.10:8000   0.0    60.0   35.0  14.0 0.0    109.0              0       4       0   31
          189 of 200 candidates are left out, 139 of them eligible; --all prints them.
    "#]].assert_eq(&text(&many));
    let all = one::text(&many, true);
    fits(&all);
    assert_eq!(all.lines().filter(|line| line.contains("10.0.0.")).count(), 201);
    assert!(!all.contains("left out"), "{all}");
}

// Both replicas of a pair are marked, and the pair's price is compared with one replica alone.
#[test]
fn a_pair() {
    let role = |role: &str, candidate| Candidate { role: role.to_owned(), ..candidate };
    let prefill = [("front_ms", 0.0), ("prefill_ms", 400.0), ("others_ms", 0.0), ("rtt_ms", 0.0)];
    let answer = [("kv_ms", 85.0), ("steps_ms", 0.5), ("rtt_ms", 0.0)];
    let prefill = Candidate { moving_tokens: 250.0, ..candidate(0, &prefill) };
    let mut pair = explanation(vec![
        role("decode", candidate(1, &answer)),
        role("decode", priced(2, [0.0, 400.0, 160.0, 8.0, 0.0])),
        role("prefill", prefill),
    ]);
    pair.prefill = Some("http://10.0.0.0:8000".to_owned());
    pair.reason = "two-legs".to_owned();
    let (score, alone) = (Some(485.5), Some(568.0));
    pair.pair = Some(Pair { score, alone, fixed_ms: 5.0, ms_per_token: 0.02 });
    expect![[r#"
        first: prefill at http://10.0.0.0:8000, answer from http://10.0.0.1:8000 (two-legs); done after 812
            ms, first token after 95 ms
          policy meridian, attempt 1, prompt of 2000 tokens; req-efbc564e-1 in the gateway's log
          score of the pair 485.5, of one replica alone 568.0; KV takes 5.0 ms and 20.0 ms for each 1,000
            tokens

          replica          role    front prefill others rtt   kv steps total ms        matched running
        → r0 10.0.0.0:8000 prefill   0.0   400.0    0.0 0.0    -     -    400.0 picked       0       0
        → r1 10.0.0.1:8000 decode      -       -      - 0.0 85.0   0.5     85.5 picked       0       0
          r2 10.0.0.2:8000 decode    0.0   400.0  160.0 0.0    -   8.0    568.0              0       4
    "#]].assert_eq(&text(&pair));
}

// A forwarded request marks the peer, and says why the replicas here were not eligible.
#[test]
fn a_forward() {
    let mut forward = explanation(vec![ineligible(0, "full"), ineligible(1, "breaker-open")]);
    forward.picked = Some("eu/eu-1".to_owned());
    forward.peers = vec![peer("asia/asia-1", Some("full")), peer("eu/eu-1", None)];
    expect![[r#"
        first: forwarded to eu/eu-1 (lowest-score); done after 812 ms, first token after 95 ms
          policy meridian, attempt 1, prompt of 2000 tokens; req-efbc564e-1 in the gateway's log

        replica          front prefill others steps rtt total ms              matched running pending kv %
        r0 10.0.0.0:8000   0.0   200.0   28.0   2.8 0.0    230.8 full               0       4       0   31
        r1 10.0.0.1:8000   0.0   200.0   28.0   2.8 0.0    230.8 breaker-open       0       4       0   31

           peer         matched  rtt ms  free replicas  queued  forwarded
           asia/asia-1      960      92              3       0          2  full
        →  eu/eu-1          960      92              3       0          2  picked
    "#]].assert_eq(&text(&forward));
}

// A queued request has no pick and no outcome yet; one whose answer arrives has a first token.
#[test]
fn no_outcome_yet() {
    let mut queued = explanation(vec![ineligible(0, "full")]);
    queued.picked = None;
    queued.reason = "no replica is eligible: queued".to_owned();
    queued.ending = Ending::default();
    expect![[r#"
        first: no replica is eligible: queued; no outcome yet
          policy meridian, attempt 1, prompt of 2000 tokens; req-efbc564e-1 in the gateway's log

        replica          front prefill others steps rtt total ms      matched running pending kv %
        r0 10.0.0.0:8000   0.0   200.0   28.0   2.8 0.0    230.8 full       0       4       0   31
    "#]]
    .assert_eq(&text(&queued));
    let mut running = explanation(vec![priced(0, [0.0, 50.0, 35.0, 14.0, 0.0])]);
    running.ending = Ending { first_token_ms: Some(12_345.6), ..Ending::default() };
    let first_line = text(&running).lines().next().unwrap().to_owned();
    expect!["first: sent to http://10.0.0.0:8000 (lowest-score); answer in progress, first token after 12.3 s"].assert_eq(&first_line);
}

// A retried request lists the decisions before the newest one, with their outcomes.
#[test]
fn earlier_decisions() {
    let mut retried = explanation(vec![priced(1, [0.0, 50.0, 35.0, 14.0, 0.0])]);
    let before = |attempt, picked: Option<&str>, reason: &str, ending| Decided {
        attempt,
        picked: picked.map(str::to_owned),
        reason: reason.to_owned(),
        ending,
        ..Decided::default()
    };
    let mut broken = failed("died", 3.0);
    broken.in_prefill = true;
    let released = Ending { retried: false, ..failed("released", 50.0) };
    (retried.attempt, retried.resumed) = (3, true);
    retried.earlier = vec![
        before(1, None, "no replica is eligible: queued", released),
        before(1, Some("http://10.0.0.2:8000"), "two-legs", broken),
        before(2, Some("http://10.0.0.3:8000"), "lowest-score", failed("replica_error", 2500.0)),
    ];
    expect![[r#"
        first: sent to http://10.0.0.1:8000 (lowest-score); done after 812 ms, first token after 95 ms
          policy meridian, attempt 3, resuming a broken answer, prompt of 2000 tokens; req-efbc564e-1 in the
            gateway's log
          before: no replica is eligible: queued; left the queue after 50 ms
          before: attempt 1 at http://10.0.0.2:8000 (two-legs); prefill: connection broke after 3.0 ms,
            retried
          before: attempt 2 at http://10.0.0.3:8000 (lowest-score); replica failed after 2500 ms, retried

          replica          front prefill others steps rtt total ms        matched running pending kv %
        → r1 10.0.0.1:8000   0.0    50.0   35.0  14.0 0.0     99.0 picked       0       4       0   31
    "#]].assert_eq(&text(&retried));
    let last = retried.earlier[2].clone();
    retried.earlier.extend(std::iter::repeat_n(last, 5));
    assert!(text(&retried).contains("before: 3 further decisions"), "{}", text(&retried));
}

// Terms that are not times have no sum, and a policy may have no terms.
#[test]
fn other_policies() {
    let loaded = |id, load, kv| candidate(id, &[("outstanding", load), ("kv_used", kv)]);
    expect![[r#"
        first: sent to http://10.0.0.0:8000 (lowest-score); done after 812 ms, first token after 95 ms
          policy meridian, attempt 1, prompt of 2000 tokens; req-efbc564e-1 in the gateway's log

           replica           outstanding  kv_used          matched  running  pending  kv %
        →  r0 10.0.0.0:8000            3     0.25  picked        0        0        0    31
           r1 10.0.0.1:8000           12     0.50                0        0        0    31
    "#]].assert_eq(&text(&explanation(vec![loaded(0, 3.0, 0.25), loaded(1, 12.0, 0.5)])));
    expect![[r#"
        first: sent to http://10.0.0.0:8000 (lowest-score); done after 812 ms, first token after 95 ms
          policy meridian, attempt 1, prompt of 2000 tokens; req-efbc564e-1 in the gateway's log

           replica                   matched  running  pending  kv %
        →  r0 10.0.0.0:8000  picked        0        0        0    31
           r1 10.0.0.1:8000                0        0        0    31
    "#]].assert_eq(&text(&explanation(vec![candidate(0, &[]), candidate(1, &[])])));
}

// Long names are cut, and columns left out, so that no line is longer than 100 columns.
#[test]
fn wide_input_fits() {
    let long = |id: u16| format!("https://{}-{id}.example.internal:8000", "replica".repeat(12));
    let wide = |id: u16, count: usize| {
        let terms = (0..count).map(|n| (format!("a_rather_long_term_{n}_ms"), 123_456.78));
        let ineligible = (id > 0).then(|| "pinned-elsewhere".to_owned());
        Candidate { url: long(id), terms: terms.collect(), ineligible, ..candidate(id, &[]) }
    };
    for count in [0, 1, 12] {
        let mut e = explanation((0..3).map(|id| wide(id, count)).collect());
        e.id = "x".repeat(120);
        e.rules = vec!["r".repeat(200); 3];
        e.peers = vec![peer(&"p".repeat(200), Some("not-permitted"))];
        e.prefill = Some(long(1));
        e.pair = Some(Pair { score: Some(1e9), alone: Some(1e9), ..Pair::default() });
        e.ending = Ending { refusal: Some("held_too_long".to_owned()), ..failed("refused", 1e7) };
        let decided = Decided {
            id: e.id.clone(),
            picked: Some(long(0)),
            prefill: Some(long(1)),
            reason: "no replica here is permitted: queued or refused".to_owned(),
            ending: e.ending.clone(),
            ..Decided::default()
        };
        e.earlier = vec![decided.clone(); 9];
        let printed = text(&e);
        assert!(printed.contains('…'), "{printed}");
        assert_eq!(printed.contains("Left out: "), count == 12, "{printed}");
        fits(&one::text(&e, true));
        fits(&list::text(&vec![decided; 3]));
    }
}

// The list has a line for each decision.
#[test]
fn a_list() {
    let decided = |id: &str, picked: Option<&str>, reason: &str, ending| Decided {
        id: format!("req-efbc564e-{id}"),
        at_s: 12.34,
        attempt: 1,
        picked: picked.map(str::to_owned),
        reason: reason.to_owned(),
        prompt_tokens: 2000,
        matched_tokens: 1500.0,
        ending,
        ..Decided::default()
    };
    let mut pair = decided("4", Some("http://10.0.0.2:8000"), "two-legs", done());
    pair.prefill = Some("http://10.0.0.1:8000".to_owned());
    let newest = vec![
        decided("5", Some("eu/eu-1"), "nearest-peer", Ending::default()),
        pair,
        decided("3", Some("http://10.0.0.3:8000"), "lowest-score", failed("replica_error", 12.0)),
        decided("2", None, "no replica is eligible: queued", Ending::default()),
    ];
    let text = list::text(&newest);
    fits(&text);
    expect![[r#"
        request        picked                        reason        outcome                 first ms total ms
        req-efbc564e-5 eu/eu-1                       nearest-peer  no outcome yet                 -        -
        req-efbc564e-4 10.0.0.1:8000 > 10.0.0.2:8000 two-legs      done                          95      812
        req-efbc564e-3 10.0.0.3:8000                 lowest-score  replica failed, retried        -       12
        req-efbc564e-2 -                             no rep…queued no outcome yet                 -        -
    "#]].assert_eq(&text);
    assert_eq!(list::text(&[]), "no decision yet\n");
}
