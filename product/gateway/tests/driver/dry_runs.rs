//! Dry runs change nothing: later requests go to the same replicas as without them.

use crate::common::{Region, Replica, call, chat};

/// Replicas of each region; enough that one more draw or turn would show.
const REPLICAS: usize = 5;
/// Requests that are actually sent.
const REQUESTS: usize = 20;

/// The target of each request, and the share of its prompt expected in the cache there.
async fn decisions(policy: &str, dry_runs: usize) -> Vec<(String, String)> {
    let mut replicas = Vec::new();
    for _ in 0..REPLICAS {
        replicas.push(Replica::start().await);
    }
    let all: Vec<&Replica> = replicas.iter().collect();
    let region = Region::with(&all, |c| c.policy.name = policy.into()).await;
    let mut decided = Vec::new();
    for n in 0..REQUESTS {
        // Four conversations, so that there are prefix matches.
        let prompt = format!("{} of conversation {}", "many words ".repeat(60), n % 4);
        for _ in 0..dry_runs {
            let mut request = chat(&prompt);
            request.headers_mut().insert("x-meridian-dry-run", "true".parse().unwrap());
            let answer = call(region.listen, request).await;
            assert_eq!(answer.status, 200);
            assert!(answer.text().contains("\"picked\":\"http://"), "{}", answer.text());
        }
        let answer = call(region.listen, chat(&prompt)).await;
        assert_eq!(answer.status, 200);
        let header = |name| answer.header(name).to_owned();
        decided.push((header("x-meridian-replica"), header("x-meridian-prefix-match")));
    }
    let settled = region.settled().await;
    assert_eq!(settled.requests.accepted, REQUESTS as u64, "dry runs do not count as requests");
    decided
}

async fn are_dry(policy: &str) {
    let without = decisions(policy, 0).await;
    assert_eq!(decisions(policy, 1).await, without, "{policy} after one dry run each");
    assert_eq!(decisions(policy, 7).await, without, "{policy} after many");
}

// Requests take turns, dry runs do not.
#[tokio::test(start_paused = true)]
async fn with_round_robin() {
    are_dry("round_robin").await;
}

// Random draws belong to a request and its attempt, so a dry run uses none up.
#[tokio::test(start_paused = true)]
async fn with_random() {
    are_dry("random").await;
}

// The same with two draws and a comparison.
#[tokio::test(start_paused = true)]
async fn with_p2c() {
    are_dry("p2c").await;
}

// A dry run teaches the default policy nothing: no prefix, no load, no turn.
#[tokio::test(start_paused = true)]
async fn with_meridian() {
    are_dry("meridian").await;
}
