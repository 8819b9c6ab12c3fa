//! A gateway that is suspended, or cut off from the others of its region.

use std::time::Duration;

use meridian_fleet::{Answer, Event, Stream};
use meridian_protocol::admin::Status;
use meridian_wan::config::LinkState;

use super::limits::{send, tenant};
use super::trio::{GATEWAYS, Trio, chat, of_siblings};
use crate::common::{must, text};

/// Streams through each gateway.
const STREAMS: u32 = 3;
/// Tokens of each: some seconds, longer than `peers.gone`.
const TOKENS: u32 = 200;
/// Requests to each of the other gateways meanwhile.
const REQUESTS: u32 = 6;
/// Requests a minute of the tenant.
const LIMIT: u32 = 45;
/// Comparisons of the limits. They take some of what is left, and less than a limit takes to be full again.
const TRIES: u32 = 5;

async fn open(trio: &Trio, at: usize, seed: u64) -> Stream {
    must(send(&trio.client, &trio.gateways[at].url, chat(&text(seed, 50), TOKENS, true)).await)
}

/// Waits until all gateways show about as many requests left for the tenant in their answers. Some
/// are earned meanwhile.
async fn until_limits_agree(trio: &Trio) {
    for _ in 0..TRIES {
        let mut left = Vec::new();
        for url in trio.urls() {
            let answer = must(send(&trio.client, &url, chat(&text(2, 50), 1, false)).await);
            let header = answer.header("x-ratelimit-remaining-requests").expect("has a limit");
            left.push(header.parse::<u32>().expect("is a number"));
        }
        let (most, least) = (left.iter().max(), left.iter().min());
        if most.zip(least).is_some_and(|(most, least)| most - least < REQUESTS) {
            return;
        }
        println!("requests left: {left:?}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    panic!("the gateways' limits differ");
}

/// Whether it is complete: each token came once, and one end.
fn is_whole(answer: &Answer) -> bool {
    let events = answer.events();
    let content = |event: &&Event| {
        event.value()["choices"][0]["delta"]["content"]
            .as_str()
            .is_some_and(|text| !text.is_empty())
    };
    let ends = events.iter().filter(|event| event.is_done()).count();
    (events.iter().filter(content).count(), ends) == (TOKENS as usize, 1)
}

/// What is silenced.
#[derive(Clone, Copy, PartialEq)]
enum Silence {
    Suspended,
    CutOff,
}

async fn silence(trio: &mut Trio, at: usize, how: Silence, on: bool) {
    match (how, on) {
        (Silence::Suspended, true) => trio.gateways[at].process.stop(),
        (Silence::Suspended, false) => trio.gateways[at].process.go_on(),
        (Silence::CutOff, true) => trio.set_links(at, LinkState::Cut).await,
        (Silence::CutOff, false) => trio.set_links(at, LinkState::Up).await,
    }
}

/// Silences a gateway while streams run through all, and ends that.
async fn survives(how: Silence) {
    let mut trio = Trio::start(3, 1.0, &tenant(LIMIT)).await;
    let mut streams = Vec::new();
    for at in 0..GATEWAYS {
        for nth in 0..STREAMS {
            streams.push(open(&trio, at, u64::from(nth) + 100 * at as u64).await);
        }
    }
    let (silent, others) = (GATEWAYS - 1, 0..GATEWAYS - 1);
    let all = STREAMS * (GATEWAYS as u32 - 1);
    for at in 0..GATEWAYS {
        trio.until(at, "it counts the others' streams", |s| of_siblings(s) == all).await;
    }
    silence(&mut trio, silent, how, true).await;
    // Those that it reaches no more count until `peers.gone`.
    for at in others.clone() {
        let one_less = |s: &Status| of_siblings(s) <= STREAMS;
        trio.until(at, "it no longer counts the silent one's", one_less).await;
    }
    for at in others {
        for nth in 0..REQUESTS {
            let body = chat(&text(1_000 + u64::from(nth), 50), 4, false);
            let answer = must(send(&trio.client, &trio.gateways[at].url, body).await);
            assert_eq!(answer.status, 200);
        }
    }
    silence(&mut trio, silent, how, false).await;
    trio.until_up(silent).await;
    until_limits_agree(&trio).await;
    for stream in streams {
        let answer = must(
            tokio::time::timeout(Duration::from_secs(120), stream.whole()).await.expect("it ends"),
        );
        assert!(is_whole(&answer), "{:?}", answer.events());
    }
    for at in 0..GATEWAYS {
        trio.until_up(at).await;
        let idle = |s: &Status| s.requests.in_flight == 0 && of_siblings(s) == 0;
        trio.until(at, "nothing is in flight", idle).await;
    }
    // What they tell each other counts again.
    let stream = open(&trio, silent, 9_999).await;
    trio.until(0, "it counts the one that is back", |s| of_siblings(s) == 1).await;
    assert!(is_whole(&must(stream.whole().await)));
    trio.until(0, "it has ended", |s| of_siblings(s) == 0).await;
}

// A gateway that is suspended for longer than `peers.gone` no longer counts at the others, which serve as
// before. When it continues, its streams are complete and all counts are true again.
#[tokio::test]
async fn a_suspended_gateway_does_no_harm() {
    survives(Silence::Suspended).await;
}

// The same if a gateway is cut off from the others, which do not see an error either.
#[tokio::test]
async fn a_gateway_that_is_cut_off_does_no_harm() {
    survives(Silence::CutOff).await;
}
