//! A shadow policy: what it would have done shows everywhere, and nothing else changes.

use meridian_protocol::admin::{Explanation, Shadow};
use meridian_protocol::policy::Policy;
use serde_json::Value;

use crate::common::{Region, Replica, Script, call, chat};
use crate::records::{ANSWER, Files, stopped};

const PROMPT: &str =
    "the sun was shining on the sea, shining with all his might: he did his very best";

fn named(name: &str) -> Policy {
    Policy { name: name.to_owned(), ..Policy::default() }
}

/// Sends the same prompt again and again to two replicas, with this shadow.
async fn region(files: &Files, replicas: [&Replica; 2], shadow: &str) -> (Region, Vec<String>) {
    let region = Region::with(&replicas, |config| {
        files.set(config);
        config.policy = named("meridian");
        config.shadow = (!shadow.is_empty()).then(|| named(shadow));
    })
    .await;
    let mut ids = Vec::new();
    for _ in 0..4 {
        for replica in &replicas {
            replica.always(Script::json(200, ANSWER));
        }
        let answer = call(region.listen, chat(PROMPT)).await;
        assert_eq!(answer.status, 200);
        ids.push(answer.header("x-request-id").to_owned());
    }
    (region, ids)
}

// The policy follows the prompt's replica, and the shadow would take turns: metrics, status, explain,
// the access log and the journal say so, with the figures of both picks.
#[tokio::test(start_paused = true)]
async fn what_it_would_do() {
    let files = Files::new("shadow");
    let (a, b) = (Replica::start().await, Replica::start().await);
    let (region, ids) = region(&files, [&a, &b], "round_robin").await;
    assert_eq!((a.count(), b.count()), (0, 4), "no request follows the shadow");

    let shadow = region.status().await.shadow.unwrap();
    let Shadow { policy, decisions, compared, compared_same, .. } = &shadow;
    assert_eq!((policy.as_str(), shadow.admission.as_str()), ("round_robin", "blind"));
    assert_eq!(decisions["other_replica"], 4);
    assert_eq!((*compared, *compared_same), (4, 0));
    assert!(shadow.matched_tokens > 0 && shadow.shadow_matched_tokens == 0, "{shadow:?}");
    assert!(shadow.shadow_first_token_ms > shadow.first_token_ms, "{shadow:?}");

    let page = region.admin("GET", "/metrics", "").await;
    let page = page.text();
    for line in [
        "meridian_shadow_decisions_total{policy=\"round_robin\",outcome=\"other_replica\"} 4\n",
        "meridian_shadow_compared_total{policy=\"round_robin\"} 4\n",
        "meridian_shadow_matched_tokens_total{policy=\"round_robin\",pick=\"shadow\"} 0\n",
    ] {
        assert!(page.contains(line), "{line}{page}");
    }

    let explained = region.admin("GET", &format!("/admin/explain/{}", ids[3]), "").await;
    let explained: Explanation = serde_json::from_slice(&explained.body).unwrap();
    let pick = explained.shadow.unwrap();
    assert_eq!((pick.policy.as_str(), pick.would.as_str()), ("round_robin", "other_replica"));
    assert_eq!(pick.picked.as_deref(), Some(a.url().as_str()));
    assert_eq!((pick.reason.as_deref(), pick.matched_tokens), (Some("turn"), Some(0)));

    stopped(region).await;
    let (log, journal) = (files.log(), files.journal());
    let words = |lines: &[Value], name: &str| -> Vec<Value> {
        lines.iter().map(|line| line[name].clone()).collect()
    };
    let turns = ["other_replica"; 4];
    assert_eq!(words(&log, "shadow_would"), turns);
    assert_eq!(words(&log, "shadow_replica"), ["r0"; 4]);
    assert_eq!(words(&journal, "x_shadow_would"), turns);
    assert!(words(&journal, "x_shadow").iter().all(|name| name == "round_robin"));
    assert_eq!(log[3]["shadow_matched"], 0);
    assert_eq!(log[3]["matched"], journal[3]["x_matched"]);
}

// Without a shadow there is no sign of one.
#[tokio::test(start_paused = true)]
async fn none() {
    let files = Files::new("no-shadow");
    let (a, b) = (Replica::start().await, Replica::start().await);
    let (region, _) = region(&files, [&a, &b], "").await;
    assert_eq!(region.status().await.shadow, None);
    assert!(!region.admin("GET", "/metrics", "").await.text().contains("shadow"));
    stopped(region).await;
    assert!(!format!("{:?}{:?}", files.log(), files.journal()).contains("shadow"));
}

// A request that no attempt served has the shadow's decision about its last attempt in the access log
// and the journal, though the machine has dropped it.
#[tokio::test(start_paused = true)]
async fn all_attempts_fail() {
    let files = Files::new("shadow-exhausted");
    let (a, b) = (Replica::start().await, Replica::start().await);
    let region = Region::with(&[&a, &b], |config| {
        files.set(config);
        config.policy = named("meridian");
        config.shadow = Some(named("round_robin"));
    })
    .await;
    // Two equal errors would be the request's fault.
    for (replica, error) in [(&a, "{}"), (&b, "[]")] {
        replica.always(Script::json(500, error));
    }
    let answer = call(region.listen, chat(PROMPT)).await;
    assert_eq!((answer.status, answer.code().as_str()), (502, "retries_exhausted"));
    stopped(region).await;
    let (log, journal) = (files.log(), files.journal());
    assert_eq!(log[0]["shadow"], "round_robin", "{log:?}");
    assert!(log[0]["shadow_would"].is_string() && log[0]["shadow_replica"].is_string(), "{log:?}");
    assert_eq!(journal[0]["x_shadow_would"], log[0]["shadow_would"], "{journal:?}");
}
