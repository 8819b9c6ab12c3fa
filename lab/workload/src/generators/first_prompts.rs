//! The prompts of GORGO's benchmark: the first questions of 100 WildChat conversations.
//!
//! GuideLLM sends the prompts of a file one after the other, each as a separate request, with ten
//! in flight at all times. The lengths are those of the benchmark's own file, and prompts that
//! repeat there repeat here: a cache can reuse little more than one long template that occurs seven
//! times. The seed sets the order; within a run each client starts at a different place in the
//! list, so that the clients together send most prompts once.
//!
//! Replies are as long as the benchmark's were: lognormal with the median and the 90th percentile
//! that Table 5 gives when request latency less TTFT is divided by the inter-token latency (455 and
//! 787 tokens). Their mean, 498, lies near the 502 tokens a request of all four tables.
//!
//! The file has no user locations: the experiment sets them.

use std::sync::Arc;

use meridian_base::Rng;

use crate::lengths::Lengths;
use crate::spec::{GeneratorParams, GeneratorSpec, PublishedLoad, knob};
use crate::{BYTES_PER_TOKEN, Generator, Program, ProgramKey, Role, Segment};

/// The generator of first prompts of conversations, one request each.
pub(crate) static SPEC: GeneratorSpec = GeneratorSpec {
    name: "first_prompts",
    summary: "The 100 opening questions of GORGO's benchmark, one request each.",
    source: "gotoni, benchmark/wildchat_flat.jsonl (lengths); GORGO Table 5 (replies)",
    load: PublishedLoad::Clients(&[4, 4, 2]),
    params: &[
        knob("reply_p50", 455.0, (1.0, 1e6), "median tokens of a reply"),
        knob("reply_p90", 787.0, (1.0, 1e6), "90th percentile of the tokens of a reply"),
        knob("max_tokens", 2048.0, (1.0, 1e6), "most tokens of a reply"),
        knob("distinct", 0.0, (0.0, 1.0), "1: no text comes twice, whatever the file repeats"),
    ],
    make: |params| Box::new(FirstPrompts::new(params)),
};

const CSV: &str = include_str!("../../data/gorgo/first_prompts.csv");

/// Prompts between the starting places of two clients, and clients of a region with a place of
/// their own: with ten clients in three regions all places differ.
const APART: u64 = 10;
const CLIENTS: u64 = 4;

/// Tag of the prompts' text, and the random path that orders them.
const TEXT: u64 = 8 << 32;
const ORDER: u64 = 0x004F_5244_4552;

struct FirstPrompts {
    /// Which text, and its tokens.
    prompts: Arc<[(u64, u32)]>,
    reply: Lengths,
    distinct: bool,
}

impl FirstPrompts {
    fn new(params: &GeneratorParams) -> FirstPrompts {
        let (p50, p90) = (params.number("reply_p50"), params.number("reply_p90"));
        FirstPrompts {
            prompts: prompts(),
            reply: Lengths::by_quantiles(p50, p90.max(p50), params.count("max_tokens")),
            distinct: params.number("distinct") >= 0.5,
        }
    }

    /// The prompt's place in the file. The order is one draw for all clients of a run.
    fn place(&self, key: ProgramKey) -> usize {
        let mut order: Vec<usize> = (0..self.prompts.len()).collect();
        let mut rng = Rng::new(key.shared(ORDER));
        for i in (1..order.len()).rev() {
            order.swap(i, rng.below(i + 1));
        }
        let client = u64::from(key.region) * CLIENTS + u64::from(key.client & 0xFFFF);
        order[((client * APART + key.ordinal) % order.len() as u64) as usize]
    }
}

fn prompts() -> Arc<[(u64, u32)]> {
    let number = |cell: Option<&str>| {
        cell.and_then(|c| c.parse::<u32>().ok()).expect("the file is part of the crate")
    };
    let rows = CSV.lines().skip(1).map(|row| {
        let mut cells = row.split(',');
        (u64::from(number(cells.next())), number(cells.next()))
    });
    rows.collect()
}

impl Generator for FirstPrompts {
    fn program(&self, key: ProgramKey) -> Program {
        let (text, tokens) = self.prompts[self.place(key)];
        let mut rng = key.rng(0);
        let own = rng.next_u64();
        let id = if self.distinct { own } else { key.shared(TEXT | text) };
        let prompt = Segment { role: Role::User, id, bytes: tokens * BYTES_PER_TOKEN };
        Program::path(key, vec![(vec![prompt], self.reply.draw(&mut rng))])
    }

    fn mean_requests(&self) -> f64 {
        1.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // The table is the file's: 100 prompts, 90 texts, 172 tokens in the mean.
    #[test]
    fn the_table_is_the_benchmarks() {
        let prompts = prompts();
        let texts: std::collections::BTreeSet<_> = prompts.iter().map(|(text, _)| text).collect();
        let tokens: u32 = prompts.iter().map(|(_, tokens)| tokens).sum();
        assert_eq!((prompts.len(), texts.len(), (tokens + 50) / 100), (100, 90, 172));
    }

    // Ten clients of three regions send each prompt once before any repeats.
    #[test]
    fn clients_share_the_list() {
        let generator = SPEC.published();
        let mut seen = Vec::new();
        for (region, clients) in [(0, 4), (1, 4), (2, 2)] {
            for client in 0..clients {
                for ordinal in 0..10 {
                    let key = ProgramKey { seed: 3, region, client, ordinal };
                    seen.push(generator.program(key).nodes[0].adds[0].bytes / BYTES_PER_TOKEN);
                }
            }
        }
        let mut all: Vec<u32> = prompts().iter().map(|(_, tokens)| *tokens).collect();
        seen.sort_unstable();
        all.sort_unstable();
        assert_eq!(seen, all);
    }

    // Replies lie about the published 502 tokens a request.
    #[test]
    fn replies_are_as_long_as_published() {
        let generator = SPEC.published();
        let key = |client| ProgramKey { seed: 1, region: 0, client, ordinal: 0 };
        let sum: u32 = (0..4000).map(|i| generator.program(key(i)).nodes[0].max_tokens).sum();
        let mean = f64::from(sum) / 4000.0;
        assert!((mean / 502.0 - 1.0).abs() < 0.05, "{mean}");
    }
}
