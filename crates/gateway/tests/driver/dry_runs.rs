//! Dry runs change nothing: whatever was asked, later requests go where they would have gone.

use crate::common::{Region, Replica, call, chat};

/// Replicas of each region; enough that a draw or a turn more would show.
const REPLICAS: usize = 5;
/// Requests that are really sent.
const REQUESTS: usize = 20;

/// Where requests went, by place, and the whole shares of their prompts that were expected there.
async fn decisions(policy: &str, dry_runs: usize) -> Vec<(String, String)> {
    let mut replicas = Vec::new();
    for _ in 0..REPLICAS {
        replicas.push(Replica::start().await);
    }
    let all: Vec<&Replica> = replicas.iter().collect();
    let region = Region::with(&all, |c| c.policy.name = policy.into()).await;
    let mut decided = Vec::new();
    for n in 0..REQUESTS {
        // Four conversations, so that prefixes are found again.
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
    assert_eq!(settled.requests.accepted, REQUESTS as u64, "dry runs are no requests");
    decided
}

async fn are_dry(policy: &str) {
    let without = decisions(policy, 0).await;
    assert_eq!(decisions(policy, 1).await, without, "{policy} after one dry run each");
    assert_eq!(decisions(policy, 7).await, without, "{policy} after many");
}

// A turn is taken by a request, not by a question.
#[tokio::test(start_paused = true)]
async fn with_round_robin() {
    are_dry("round_robin").await;
}

// Chance is drawn for a request and its attempt, so a question uses none up.
#[tokio::test(start_paused = true)]
async fn with_random() {
    are_dry("random").await;
}

// The same of two draws and a comparison.
#[tokio::test(start_paused = true)]
async fn with_p2c() {
    are_dry("p2c").await;
}

// The default policy learns nothing from a question: no prefix, no load, no turn.
#[tokio::test(start_paused = true)]
async fn with_meridian() {
    are_dry("meridian").await;
}
