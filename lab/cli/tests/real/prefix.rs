//! The gateway in front of real llama.cpp servers: it uses prefix caches and changes no bytes.

use crate::common::{LIMIT, chat, fleet, llamacpp, must, status_when, text, up};
use meridian_fleet::llamacpp::ServerSpec;
use meridian_fleet::{Answer, Client, Fleet, Gateway, GatewaySpec, LoadSpec, Process};

const REPLICAS: usize = 3;

/// Policies, and the least by which their cached share of the prompt tokens must exceed round
/// robin's. The margins are far below the measured ones: 17 to 24 points for policies that follow
/// only prefixes, and 12 to 17 points for ours, which weighs prefixes against load. It moves a
/// session to an idle server if the prefill there is short, as it is here.
const MARGINS: [(&str, f64); 3] = [("prefix_aware", 0.10), ("skywalker", 0.10), ("meridian", 0.05)];

/// Clients, each with one session at a time. Not a multiple of the replicas: otherwise, clients in
/// lockstep would return every session to the same replica even under round robin.
const CLIENTS: u32 = 5;
/// Total number of sessions.
const SESSIONS: u32 = 30;
/// Turns of a session; each sends the whole conversation so far.
const TURNS: u32 = 4;

async fn region(fleet: &Fleet, policy: &str) -> (Vec<Process>, Gateway) {
    let installed = llamacpp().await;
    let spec = ServerSpec { slots: 4, context: 8192, port: 0 };
    let mut servers = Vec::new();
    for n in 0..REPLICAS {
        servers.push(must(fleet.llamacpp(&format!("{policy}-{n}"), &installed, spec).await));
    }
    let spec = GatewaySpec {
        policy: policy.to_owned(),
        replicas: servers.iter().map(|server| server.said(0).to_owned()).collect(),
        ..GatewaySpec::default()
    };
    let gateway = must(fleet.gateway(&format!("gateway-{policy}"), &spec).await);
    status_when(&Client::new(), &gateway, "all replicas up", up(REPLICAS)).await;
    (servers, gateway)
}

/// The share of the prompt tokens that the servers had cached, under one policy with cold caches.
async fn cached_share(fleet: &Fleet, policy: &str) -> f64 {
    let (_servers, gateway) = region(fleet, policy).await;
    let [clients, sessions, turns] = [CLIENTS, SESSIONS, TURNS].map(|n| n.to_string());
    let args = [
        ["--workload", "sessions"],
        ["--turns", &turns],
        ["--system-bytes", "500"],
        ["--question-bytes", "700"],
        ["--max-tokens", "24"],
        ["--clients", &clients],
        ["--programs", &sessions],
        ["--check-gateway", &gateway.admin],
    ];
    let spec = LoadSpec {
        url: gateway.url.clone(),
        duration: 10 * LIMIT,
        args: args.into_iter().flatten().map(str::to_owned).collect(),
    };
    let mut load = must(fleet.load(&format!("load-{policy}"), &spec).await);
    let report = must(load.report(2 * LIMIT).await);
    let counts = report.counts;
    assert_eq!(counts.errors, 0, "{policy}: {report:?}");
    assert_eq!(counts.ok, u64::from(SESSIONS * TURNS), "{policy}: {report:?}");
    let share = counts.cached_tokens as f64 / counts.prompt_tokens as f64;
    println!("{policy}: {:.1} % of {} prompt tokens cached", share * 100.0, counts.prompt_tokens);
    share
}

// Sessions with a shared system prompt run on three real servers, whose slots cache their last
// prompt. By the servers' own counts, prefix-aware policies get more cached tokens than round
// robin. Every policy starts with fresh servers and the same sessions.
#[tokio::test]
async fn prefix_policies_find_more_cached_than_round_robin() {
    let fleet = fleet();
    let round_robin = cached_share(&fleet, "round_robin").await;
    for (policy, margin) in MARGINS {
        let share = cached_share(&fleet, policy).await;
        assert!(
            share >= round_robin + margin,
            "{policy} has {share:.3} cached, round robin {round_robin:.3}: \
             less than {margin} more"
        );
    }
}

// An answer through the gateway is byte for byte the server's own, except ids and times, which
// differ between any two answers. This holds for whole and streamed answers, with and without
// usage.
#[tokio::test]
async fn answers_pass_unchanged() {
    let fleet = fleet();
    let (servers, gateway) = region(&fleet, "round_robin").await;
    let (client, prompt) = (Client::new(), text(7, 60));
    let usage = chat(&prompt, 12, true)
        .replace("\"stream\":true", "\"stream\":true,\"stream_options\":{\"include_usage\":true}");
    for body in [chat(&prompt, 12, false), chat(&prompt, 12, true), usage] {
        let path = "/v1/chat/completions";
        // Every server gets the prompt first, so that all answers report the same cached tokens.
        let mut direct = Vec::new();
        for server in servers.iter().chain(&servers) {
            direct
                .push(must(client.post(&format!("{}{path}", server.said(0)), body.clone()).await));
        }
        let through = must(client.post(&format!("{}{path}", gateway.url), body.clone()).await);
        let expected = direct.last().unwrap();
        assert_eq!(through.status, 200);
        assert_eq!(through.header("content-type"), expected.header("content-type"));
        assert_eq!(steady(&through), steady(expected), "asked for {body}");
    }
}

/// The body without ids and times, and otherwise unchanged.
fn steady(answer: &Answer) -> String {
    let mut text = String::from_utf8(answer.body.to_vec()).expect("an answer is text");
    for key in ["\"id\":", "\"created\":", "\"timings\":"] {
        let mut steady = String::new();
        let mut rest = text.as_str();
        while let Some((before, after)) = rest.split_once(key) {
            steady.push_str(before);
            steady.push_str(key);
            // A value is a string or number, or an object of such; none contains a brace or comma.
            let end = match after.starts_with('{') {
                true => after.find('}').expect("objects end") + 1,
                false => after.find([',', '}']).expect("members end"),
            };
            rest = &after[end..];
        }
        steady.push_str(rest);
        text = steady;
    }
    text
}
