//! Warms caches before a run: sends the prefixes that most of its prompts share.
//!
//! GORGO (section 8, "Proactive prefix placement and cache warming") suggests placing valuable
//! prefixes before they are in demand. Here they are found in the run's own first programs: a
//! prefix is worth the prompt bytes that it saves. Each is sent as a prompt for one token, to the
//! endpoint, which chooses a replica, or to every one of given replicas, which then all have it.
//! The prompts are neither counted nor measured.

use std::collections::HashMap;
use std::time::Instant;

use anyhow::{bail, ensure};
use bytes::Bytes;
use http::{HeaderValue, Uri};
use meridian_base::mix;
use meridian_workload::{Program, ProgramKey, Role, Segment, Walk};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::body::{self, Reply};
use super::exchange::exchange;
use super::http as client;
use super::options::{Arrivals, Warm};
use super::outcome::Seen;
use super::report::Warmed;
use super::state::Load;

/// Programs that are searched for prefixes.
const SEARCHED: u64 = 1024;
/// Prompts sent at a time.
const TOGETHER: usize = 4;
/// Bytes of the question after a prefix: templates want a user's message.
const QUESTION: u32 = 8;

/// Sends the prefixes of the run.
///
/// # Errors
/// When an address is invalid, or none of the prompts is answered.
pub(super) async fn warm(load: &Load, warm: &Warm) -> anyhow::Result<Warmed> {
    let keys = keys(load);
    let programs: Vec<Program> = keys.map(|key| load.generator.program(key)).collect();
    // An endpoint may know the tenants' own keys only.
    let tenant = programs.first().map_or(0, |program| program.tenant);
    let prefixes = prefixes(&programs, warm.prefixes as usize);
    let uris: Vec<Uri> = match warm.at.is_empty() {
        true => load.orders.iter().filter_map(|order| order.first().cloned()).collect(),
        false => {
            let join = |url: &String| client::join(url, "/v1/chat/completions");
            warm.at.iter().map(join).collect::<Result<_, _>>()?
        }
    };
    let mut done = Warmed { prefixes: prefixes.len() as u64, ..Warmed::default() };
    let mut on = JoinSet::new();
    for (at, prefix) in prefixes.into_iter().enumerate() {
        let (body, session) = prompt(load, prefix, at as u64);
        for uri in &uris {
            if on.len() >= TOGETHER {
                count(&mut done, on.join_next().await);
            }
            let request = load.http_request(uri, &session, tenant, body.clone());
            let (http, limit, stream) =
                (load.http.clone(), load.options.timeout, load.options.stream);
            on.spawn(async move {
                let mut seen = Seen::default();
                let answer = exchange(&http, request, stream, Instant::now(), &mut seen);
                let ok = timeout(limit, answer).await.is_ok_and(|end| end.is_ok());
                ok.then(|| seen.usage.map_or(0, |usage| usage.prompt))
            });
        }
    }
    while !on.is_empty() {
        count(&mut done, on.join_next().await);
    }
    let all_failed = done.prompts > 0 && done.failed == done.prompts;
    if all_failed {
        bail!("warm: none of the {} prompts was answered by {}", done.prompts, uris[0]);
    }
    ensure!(
        done.prefixes > 0,
        "warm: the prompts of workload {:?} share no prefix; leave --warm out",
        load.options.workload.name
    );
    Ok(done)
}

fn count(done: &mut Warmed, ended: Option<Result<Option<u64>, tokio::task::JoinError>>) {
    let Some(ended) = ended else { return };
    done.prompts += 1;
    match ended.ok().flatten() {
        Some(tokens) => done.prompt_tokens += tokens,
        None => done.failed += 1,
    }
}

/// The first programs of the run.
fn keys(load: &Load) -> impl Iterator<Item = ProgramKey> + '_ {
    let clients = match load.options.arrivals {
        Arrivals::Closed { clients } | Arrivals::Throughput { most: clients } => clients,
        Arrivals::Programs { .. } | Arrivals::Requests { .. } | Arrivals::Recorded { .. } => 1,
    };
    let most = load.options.programs.unwrap_or(SEARCHED).min(SEARCHED);
    (0..most).map(move |at| {
        let client = (at % u64::from(clients)) as u32;
        load.key(client, at / u64::from(clients))
    })
}

/// The body and the session of a prompt with this prefix.
fn prompt(load: &Load, mut prefix: Vec<Segment>, at: u64) -> (Bytes, HeaderValue) {
    let id = mix(mix(load.options.seed, 0x5741_524D), at);
    prefix.push(Segment { role: Role::User, id, bytes: QUESTION });
    let key = load.key(0, at);
    let mut walk = Walk::<Reply>::new(Program::path(key, vec![(prefix, 1)]));
    let node = walk.take().expect("a program of one turn has a first request");
    let body = body::chat(&load.options, load.model_of(key), &walk, node);
    let session = HeaderValue::from_str(&format!("{id:016x}"));
    (body, session.expect("hexadecimal digits are a header value"))
}

/// The prefixes that at least two of the programs' first prompts share, most valuable first: the
/// longest one of each prompt, by its bytes times the prompts that start with it.
fn prefixes(programs: &[Program], most: usize) -> Vec<Vec<Segment>> {
    let roots = || {
        let nodes = programs.iter().flat_map(|program| &program.nodes);
        nodes.filter(|node| node.parent.is_none()).map(|node| node.adds.as_slice())
    };
    let mut starts: HashMap<u64, u64> = HashMap::new();
    for prompt in roots() {
        chain(prompt).for_each(|(hash, _)| *starts.entry(hash).or_default() += 1);
    }
    let mut shared: HashMap<u64, (u64, &[Segment])> = HashMap::new();
    for prompt in roots() {
        let longest =
            chain(prompt).enumerate().take_while(|(_, (hash, _))| starts[hash] > 1).last();
        if let Some((at, (hash, bytes))) = longest {
            shared.entry(hash).or_insert((bytes * starts[&hash], &prompt[..=at]));
        }
    }
    let mut shared: Vec<(u64, u64, &[Segment])> =
        shared.into_iter().map(|(hash, (value, prefix))| (value, hash, prefix)).collect();
    shared.sort_unstable_by_key(|&(value, hash, _)| std::cmp::Reverse((value, hash)));
    shared.into_iter().take(most).map(|(_, _, prefix)| prefix.to_vec()).collect()
}

/// The hash and the bytes of each prefix of `prompt`, shortest first.
fn chain(prompt: &[Segment]) -> impl Iterator<Item = (u64, u64)> + '_ {
    prompt.iter().scan((0, 0), |(hash, bytes), segment| {
        *hash = mix(mix(*hash, segment.id), u64::from(segment.bytes));
        *bytes += u64::from(segment.bytes);
        Some((*hash, *bytes))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use meridian_workload::{Generator, Sessions};

    fn program(ordinal: u64, of: &[(u64, u32)]) -> Program {
        let segment =
            |(id, bytes): &(u64, u32)| Segment { role: Role::User, id: *id, bytes: *bytes };
        let key = ProgramKey { seed: 1, region: 0, client: 0, ordinal };
        Program::path(key, vec![(of.iter().map(segment).collect(), 8)])
    }

    fn ids(prefixes: &[Vec<Segment>]) -> Vec<Vec<u64>> {
        prefixes.iter().map(|prefix| prefix.iter().map(|segment| segment.id).collect()).collect()
    }

    // A short prefix of many prompts, and a long one of two: each is worth its bytes times its
    // prompts. A prefix of a single prompt is left out, and so is one below another one's.
    #[test]
    fn the_most_valuable_come_first() {
        let mut programs: Vec<Program> =
            (0..9).map(|n| program(n, &[(1, 100), (50 + n, 9)])).collect();
        programs.extend((0..2).map(|n| program(n, &[(2, 10), (3, 1000), (70 + n, 9)])));
        programs.push(program(0, &[(9, 5000)]));
        assert_eq!(ids(&prefixes(&programs, 9)), [vec![2, 3], vec![1]]);
        assert_eq!(ids(&prefixes(&programs, 1)), [vec![2, 3]]);
    }

    // The sessions of llm-cache-router share their system prompt and nothing else.
    #[test]
    fn sessions_share_their_system_prompt() {
        let key = |ordinal| ProgramKey { seed: 1, region: 0, client: 0, ordinal };
        let programs: Vec<Program> = (0..8).map(|n| Sessions::default().program(key(n))).collect();
        let found = prefixes(&programs, 9);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].len(), found[0][0].bytes), (1, 6144));
    }
}
