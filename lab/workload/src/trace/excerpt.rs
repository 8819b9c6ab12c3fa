//! Excerpts of public traces that ship with the crate, so that a user need not download one first.
//!
//! A row is a request: arrival in ms, tokens of prompt and reply, and, where the trace has block
//! ids, the earlier request that the prompt shares most with and how many leading blocks. The ids
//! are reconstructed from these. `data/traces` has the sources.

use meridian_base::{Time, mix};

use super::TraceRequest;

/// An excerpt of a public trace.
#[derive(Debug)]
pub struct Excerpt {
    /// Its name.
    pub name: &'static str,
    /// Its description in one line.
    pub summary: &'static str,
    /// Tokens of a block; 0 if it has no block ids.
    block_tokens: u32,
    csv: &'static str,
}

/// Every excerpt.
pub static EXCERPTS: &[Excerpt] = &[
    Excerpt {
        name: "mooncake",
        summary: "Mooncake's conversation trace (FAST'25): 3,658 requests in 20 minutes",
        block_tokens: 512,
        csv: include_str!("../../data/traces/mooncake.csv"),
    },
    Excerpt {
        name: "azure",
        summary: "Azure's conversation trace of 2023: 5,985 requests in 20 minutes; nothing shared",
        block_tokens: 0,
        csv: include_str!("../../data/traces/azure.csv"),
    },
];

/// The excerpt called `name`.
#[must_use]
pub fn find_excerpt(name: &str) -> Option<&'static Excerpt> {
    EXCERPTS.iter().find(|excerpt| excerpt.name == name)
}

impl Excerpt {
    /// Its requests, by time.
    ///
    /// # Panics
    /// Never in a crate that passed its tests: the rows are part of it.
    #[must_use]
    pub fn requests(&self) -> Vec<TraceRequest> {
        let mut requests: Vec<TraceRequest> = Vec::new();
        for (number, row) in self.csv.lines().skip(1).enumerate() {
            let mut cells = row.split(',').map(|cell| cell.parse::<u32>().expect("a whole number"));
            let mut cell = || cells.next().expect("a row is complete");
            let request = TraceRequest::new(Time::from_millis(cell().into()), cell(), cell());
            requests.push(match self.block_tokens {
                0 => request,
                block_tokens => {
                    let (of, shared) = (cell() as usize, cell() as usize);
                    let mut hash_ids: Vec<u64> =
                        requests.get(of).map_or(Vec::new(), |r| r.hash_ids[..shared].to_vec());
                    let all = request.input_tokens.div_ceil(block_tokens) as usize;
                    hash_ids.extend((shared..all).map(|at| mix(number as u64, at as u64)));
                    TraceRequest { block_tokens, hash_ids, ..request }
                }
            });
        }
        requests
    }
}
