//! A replica's queue and its current batch.
//!
//! A batch is formed when the replica is free: the requests that have waited longest, each on the
//! least loaded rank, as long as they fit into its budget of prompt tokens. A prompt above the
//! budget is computed in chunks, each a new generation of the same batch. No request joins a
//! running batch, and a request that has been computed leaves with its generation. Prefixes of
//! waiting requests are not fetched ahead.

use std::collections::VecDeque;

use meridian_base::Time;

use super::compute::Shares;
use super::exchange::Ways;
use super::geometry::Site;
use super::kv::{Directory, Holder, KvFound};
use super::setup::{Pool, Request};

/// A prefill replica.
#[derive(Debug)]
pub(crate) struct Replica<'a> {
    pub(crate) pool: &'a Pool,
    /// The number of its pool, and its own in the pool.
    pub(crate) number: usize,
    pub(crate) nth: u32,
    pub(crate) site: Site,
    pub(crate) ways: Ways,
    /// Waiting requests, by number, and the tokens of them and of the batch.
    pub(crate) queue: VecDeque<u32>,
    pub(crate) outstanding: u64,
    pub(crate) batch: Option<Running>,
}

/// A request in a batch.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub(crate) request: u32,
    pub(crate) rank: u32,
    /// Tokens that are cached or fetched, and the holders they come from.
    pub(crate) matched: u32,
    pub(crate) fetch: Vec<(Holder, u32)>,
    pub(crate) tokens: u32,
    /// The destination of its KV: a decode replica and a rank of it.
    pub(crate) to: Holder,
}

/// The current phase of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// It waits for the fetch of a layer.
    Fetch,
    /// It computes attention, and passes KV around its ring.
    Attention,
    /// The exchange before the experts: tokens go to them, or attention is summed.
    Dispatch,
    /// It computes the rest of the layer.
    Rest,
    /// The exchange after the experts: tokens come back, or are summed.
    Combine,
    /// The last layer is done.
    Head,
}

/// The current batch.
#[derive(Clone, Debug)]
pub(crate) struct Running {
    pub(crate) members: Vec<Member>,
    pub(crate) layer: u16,
    pub(crate) generation: u32,
    pub(crate) generations: u32,
    pub(crate) phase: Phase,
    /// Of this generation.
    pub(crate) shares: Shares,
    /// Number of events that the phase still waits for.
    pub(crate) waits: u32,
    /// When its exchange, or its wait for a fetch, started.
    pub(crate) since: Time,
    /// Flows still to arrive, by group of layers.
    pub(crate) fetching: Vec<u32>,
}

impl Running {
    /// Tokens of a member before this generation's chunk, and in it.
    pub(crate) fn chunk(&self, member: &Member, budget: u32) -> (u32, u32) {
        let before = member.matched + self.generation * budget;
        let new = (member.tokens - before.min(member.tokens)).min(budget);
        (before, new)
    }

    /// Advances to the next chunks and returns the members that have been computed.
    pub(crate) fn next_generation(&mut self, pool: &Pool) -> Vec<Member> {
        self.generation += 1;
        assert!(self.generation < self.generations, "a batch has {} chunks", self.generations);
        let all = std::mem::take(&mut self.members);
        let left = |member: &Member| self.chunk(member, pool.batch_tokens).1 > 0;
        let (members, over) = all.into_iter().partition(left);
        self.members = members;
        self.divide(pool);
        over
    }

    /// Computes each rank's share of this generation.
    pub(crate) fn divide(&mut self, pool: &Pool) {
        self.shares = Shares::new(pool);
        for member in &self.members {
            let chunk = self.chunk(member, pool.batch_tokens);
            self.shares.add(pool, member.rank, chunk);
        }
    }
}

/// Requests of a pool, from which batches are formed.
pub(crate) struct Forming<'a> {
    pub(crate) pool: &'a Pool,
    pub(crate) directory: &'a Directory,
    /// The replica's index in its pool.
    pub(crate) replica: u32,
}

impl Forming<'_> {
    /// Takes the next batch from the queue; `request` finds one by its number.
    pub(crate) fn take<'r>(
        &self,
        queue: &mut VecDeque<u32>,
        request: impl Fn(u32) -> &'r Request,
    ) -> Vec<Member> {
        let mut load = vec![0_u32; self.pool.separate_ranks() as usize];
        let mut members: Vec<Member> = Vec::new();
        while let Some(&number) = queue.front() {
            let member = self.member(number, request(number), &load);
            assert!(member.matched <= member.tokens, "request {number} matches more than it has");
            let new = member.tokens - member.matched;
            let of = &mut load[member.rank as usize];
            if *of > 0 && of.saturating_add(new) > self.pool.batch_tokens {
                break;
            }
            queue.pop_front();
            *of = of.saturating_add(new);
            members.push(member);
        }
        members
    }

    /// The request on the least loaded rank; ties go to the rank with most of its prefix, and then
    /// in turn.
    fn member(&self, number: u32, asked: &Request, load: &[u32]) -> Member {
        let here = |rank: u32| {
            let own = Holder { replica: self.replica, rank };
            self.directory.held(asked, |holder| *holder == own)
        };
        let ranks = self.pool.separate_ranks();
        let least = load.iter().copied().min().unwrap_or(0);
        let free = (0..ranks).filter(|rank| load[*rank as usize] == least);
        let turn = |rank: u32| (rank + number) % ranks;
        let ahead = free.max_by_key(|rank| (here(*rank), turn(*rank)));
        let rank = ahead.expect("some rank has least");
        let own = Holder { replica: self.replica, rank };
        let KvFound { matched, fetch } = self.directory.find(asked, own, self.pool.victims, number);
        let to = Holder { replica: 0, rank: 0 };
        Member { request: number, rank, matched, fetch, tokens: asked.tokens, to }
    }
}
