//! Structures against naive twins, and the engine against its contract, on random events from
//! seeds. A failing seed is printed; put it into the loop's range start to see it alone.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use meridian_base::{RequestId, Rng, Time, mix};
use meridian_engine::{
    BLOCK_TOKENS, Config, Engine, Input, KvCache, Leg, Output, Profile, Schedule, StopReason,
    Submission, Table, TokenOutputs,
};
use std::collections::BTreeMap;

/// The KV cache in its simplest form: one list of free blocks, searched from end to end, and no
/// index.
struct Twin {
    references: Vec<u32>,
    hashes: Vec<Option<u64>>,
    free: Vec<usize>,
    evictions: u64,
}

impl Twin {
    fn new(blocks: usize) -> Twin {
        let (references, hashes) = (vec![0; blocks], vec![None; blocks]);
        Twin { references, hashes, free: (0..blocks).collect(), evictions: 0 }
    }

    fn find(&self, hash: u64) -> Option<usize> {
        self.hashes.iter().position(|h| *h == Some(hash))
    }

    fn matched(&self, hashes: &[u64]) -> usize {
        hashes.iter().take_while(|h| self.find(**h).is_some()).count()
    }

    fn share(&mut self, hashes: &[u64], table: &mut Vec<usize>) {
        for hash in hashes {
            let block = self.find(*hash).unwrap();
            self.free.retain(|b| *b != block);
            self.references[block] += 1;
            table.push(block);
        }
    }

    fn grow(&mut self, table: &mut Vec<usize>, blocks: usize) -> bool {
        let fresh = blocks.saturating_sub(table.len());
        if fresh > self.free.len() {
            return false;
        }
        for block in self.free.drain(..fresh) {
            self.evictions += u64::from(self.hashes[block].take().is_some());
            self.references[block] = 1;
            table.push(block);
        }
        true
    }

    fn name(&mut self, block: usize, hash: u64) {
        if self.hashes[block].is_none() && self.find(hash).is_none() {
            self.hashes[block] = Some(hash);
        }
    }

    fn release(&mut self, table: Vec<usize>) {
        for block in table.into_iter().rev() {
            self.references[block] -= 1;
            if self.references[block] == 0 {
                let at = if self.hashes[block].is_some() { self.free.len() } else { 0 };
                self.free.insert(at, block);
            }
        }
    }
}

/// A prompt from a small tree of texts, so that prefixes are shared often.
fn text(rng: &mut Rng, blocks: usize) -> Vec<u64> {
    let mut hash = rng.below(3) as u64;
    let mut next = || {
        hash = mix(hash, if rng.below(4) == 0 { rng.below(3) as u64 } else { 9 });
        hash
    };
    (0..blocks).map(|_| next()).collect()
}

/// A sequence's blocks in the cache, in its twin, and their hashes.
#[derive(Default)]
struct Live {
    table: Table,
    twins: Vec<usize>,
    hashes: Vec<u64>,
    /// Leading blocks that were shared or named before.
    named: usize,
}

/// A cache and its twin with the same sequences.
struct Pair {
    cache: KvCache,
    twin: Twin,
    live: Vec<Live>,
}

impl Pair {
    fn new(blocks: usize) -> Pair {
        let (cache, twin) = (KvCache::new(blocks as u32), Twin::new(blocks));
        Pair { cache, twin, live: Vec::new() }
    }

    /// A new sequence of these blocks. One that fits is shared and can be grown; one that does not
    /// changes nothing.
    fn arrive(&mut self, hashes: Vec<u64>) {
        let Pair { cache, twin, .. } = self;
        let (length, shared) = (hashes.len(), cache.matched(&hashes) as usize);
        assert_eq!(shared, twin.matched(&hashes));
        let mut new = Live { hashes, named: shared, ..Live::default() };
        if cache.share(&new.hashes, length as u32, &mut new.table).is_some() {
            twin.share(&new.hashes[..shared], &mut new.twins);
            assert!(cache.grow(&mut new.table, length as u32));
            assert!(twin.grow(&mut new.twins, length));
        } else {
            let idle = |h: &&u64| twin.references[twin.find(**h).unwrap()] == 0;
            let idle = new.hashes[..shared].iter().filter(idle).count();
            assert!(length - shared + idle > twin.free.len());
            new.named = 0;
        }
        self.live.push(new);
    }

    fn release(&mut self, at: usize) {
        let mut old = self.live.swap_remove(at);
        self.cache.release(&mut old.table);
        self.twin.release(old.twins);
    }

    fn grow(&mut self, at: usize, by: usize) {
        let Live { table, twins, .. } = &mut self.live[at];
        let size = twins.len() + by;
        assert_eq!(self.cache.grow(table, size as u32), self.twin.grow(twins, size));
    }

    /// Names the blocks up to a random one; each is tried once.
    fn name(&mut self, at: usize, rng: &mut Rng) {
        let Live { table, twins, hashes, named } = &mut self.live[at];
        let until = rng.below(twins.len().min(hashes.len()) + 1);
        self.cache.name(table, hashes, until as u32);
        for block in *named..until {
            self.twin.name(twins[block], hashes[block]);
        }
        *named = until.max(*named);
    }

    /// Cuts a table in two; the sequence's text ends at the cut.
    fn cut(&mut self, at: usize, rng: &mut Rng) {
        let Live { table, twins, hashes, named } = &mut self.live[at];
        let stay = rng.below(twins.len() + 1);
        let mut rest = self.cache.split_off(table, stay as u32, hashes);
        let twin_rest = twins.split_off(stay);
        hashes.truncate(stay);
        *named = stay.min(*named);
        self.cache.check_invariants(self.live.iter().map(|live| &live.table).chain([&rest]));
        self.cache.release(&mut rest);
        self.twin.release(twin_rest);
    }

    fn check(&self, texts: &[Vec<u64>]) {
        let Pair { cache, twin, live } = self;
        cache.check_invariants(live.iter().map(|live| &live.table));
        assert_eq!(cache.referenced() as usize, twin.references.len() - twin.free.len());
        assert_eq!(cache.indexed() as usize, twin.hashes.iter().flatten().count());
        assert_eq!(cache.evictions(), twin.evictions);
        for text in texts {
            assert_eq!(cache.matched(text) as usize, twin.matched(text));
        }
    }
}

// The cache and its naive twin agree on every answer, for any order of sharing, growing, naming,
// cutting and releasing: with a few blocks, most of them evicted soon, and with prompts far longer
// than their distance to the next branch.
#[test]
fn kv_blocks_agree_with_a_naive_twin() {
    for seed in 0..300 {
        let mut rng = Rng::new(seed);
        let (most, longest) = [(24, 10), (150, 60)][(seed % 2) as usize];
        let mut pair = Pair::new(1 + rng.below(most));
        let mut texts = Vec::new();
        for _ in 0..300 {
            let any = rng.below(pair.live.len().max(1));
            match rng.below(9) {
                0..=2 if !pair.live.is_empty() => pair.release(any),
                3 | 4 if !pair.live.is_empty() => pair.grow(any, rng.below(3)),
                5 if !pair.live.is_empty() && rng.below(3) == 0 => pair.cut(any, &mut rng),
                _ => {
                    let length = rng.below(longest);
                    let hashes = text(&mut rng, length);
                    texts.truncate(8);
                    texts.insert(0, hashes.clone());
                    pair.arrive(hashes);
                }
            }
            if !pair.live.is_empty() {
                let any = rng.below(pair.live.len());
                pair.name(any, &mut rng);
            }
            pair.check(&texts);
        }
    }
}

fn random_config(rng: &mut Rng) -> Config {
    let profile = Profile::named("llama-3.1-8b", "l4", 1).unwrap();
    let mut config = Config::new(profile).with_kv_blocks(4 + rng.below(60) as u32);
    config.max_num_seqs = 1 + rng.below(12) as u32;
    config.max_num_batched_tokens = 1 + rng.below(300) as u32;
    config.max_pending = 1 + rng.below(20) as u32;
    config.decode_stride = 1 + rng.below(20) as u32;
    config.jitter = [0.0, 0.3][rng.below(2)];
    config.schedule = [Schedule::Mixed, Schedule::Ahead, Schedule::PromptsFirst][rng.below(3)];
    config
}

fn random_submission(rng: &mut Rng, id: u64) -> Submission {
    let prompt_tokens = rng.below(400) as u32;
    let reply_tokens = rng.below(80) as u32;
    let whole = ((prompt_tokens + reply_tokens) / BLOCK_TOKENS) as usize;
    let length = [whole, (prompt_tokens / BLOCK_TOKENS) as usize, 0][rng.below(3)];
    let blocks = text(rng, length);
    let max_tokens = rng.below(100) as u32;
    Submission { id: RequestId(id), prompt_tokens, reply_tokens, max_tokens, blocks }
}

/// The outputs seen for a request.
#[derive(Debug, Default)]
struct Heard {
    tokens: u32,
    admitted: u32,
    preempted: u32,
    ended: u32,
    /// Whether it waits for its KV.
    deferred: bool,
    held: u32,
    released: u32,
}

/// Some leg of a request, some news of one, or an abort.
fn random_input(rng: &mut Rng, id: u64) -> Input {
    let any = RequestId(rng.below(id as usize + 1) as u64);
    let lease = meridian_base::Duration::from_millis(rng.below(3_000) as u64);
    match rng.below(14) {
        0 | 1 => Input::Abort(any),
        2 => Input::Release(any),
        3 => Input::Renew { id: any, lease },
        4 => Input::Fetched(any),
        5 => Input::FetchFailed { id: any, recompute: rng.below(2) == 0 },
        6 | 7 => Input::SubmitLeg(random_submission(rng, id), Leg::Prefill { lease }),
        8 | 9 => Input::SubmitLeg(random_submission(rng, id), Leg::Decode),
        _ => Input::Submit(random_submission(rng, id)),
    }
}

fn listen(engine: &mut Engine, heard: &mut BTreeMap<u64, Heard>, last: &mut Time, now: Time) {
    while let Some(output) = engine.poll() {
        let (id, at) = match output {
            Output::Admitted { id, at, .. }
            | Output::Tokens { id, at, .. }
            | Output::Preempted { id, at, .. }
            | Output::Finished { id, at, .. }
            | Output::Deferred { id, at, .. }
            | Output::Held { id, at, .. }
            | Output::Released { id, at, .. }
            | Output::Refused { id, at, .. } => (id, at),
        };
        assert!(*last <= at && at <= now, "outputs come in order, none from the future");
        *last = at;
        let h = heard.get_mut(&id.0).expect("no output of an unknown request");
        let released = matches!(output, Output::Released { .. });
        assert_eq!(h.ended, u32::from(released), "after the end only the release of its blocks");
        match output {
            Output::Admitted { .. } => {
                h.admitted += 1;
                h.deferred = false;
            }
            Output::Deferred { missing_blocks, .. } => {
                assert!(missing_blocks > 0 && h.admitted == 0 && !h.deferred);
                h.deferred = true;
            }
            Output::Held { tokens, .. } => {
                assert!(tokens > 0);
                h.held += 1;
            }
            Output::Released { .. } => h.released += 1,
            Output::Preempted { .. } => h.preempted += 1,
            Output::Tokens { total, new, .. } => {
                assert_eq!(h.tokens + new, total, "no token is lost or said twice");
                h.tokens = total;
            }
            Output::Finished { why, usage, timings, .. } => {
                assert_eq!((h.tokens, h.preempted), (usage.reply_tokens, usage.preemptions));
                assert!(usage.cached_tokens < usage.prompt_tokens, "the last token is computed");
                assert_eq!(timings.queued + timings.prefill + timings.decode, timings.e2e);
                let cut = matches!(why, StopReason::Abort | StopReason::Error);
                assert!(cut || h.tokens > 0);
                h.ended += 1;
                h.deferred = false;
            }
            Output::Refused { .. } => {
                assert_eq!(h.admitted, 0);
                h.ended += 1;
            }
        }
    }
}

// For any submissions, legs, arrivals of KV and aborts, and however late the driver calls: every
// request ends exactly once, held blocks are released once, outputs are in order, no state is left
// behind, and the counters agree with the outputs.
#[test]
fn every_request_ends_once() {
    for seed in 0..300 {
        let mut rng = Rng::new(seed);
        let mut engine = Engine::new(random_config(&mut rng), seed).unwrap();
        let (mut heard, mut last, mut now) = (BTreeMap::new(), Time::ZERO, Time::ZERO);
        for id in 0..60 {
            now = now + meridian_base::Duration::from_millis(rng.below(400) as u64);
            let input = random_input(&mut rng, id);
            if matches!(input, Input::Submit(_) | Input::SubmitLeg(..)) {
                heard.insert(id, Heard::default());
            }
            engine.handle(now, input);
            engine.check_invariants();
            if rng.below(3) > 0 {
                engine.handle_timeout(now);
                engine.check_invariants();
            }
            listen(&mut engine, &mut heard, &mut last, now);
        }
        loop {
            let deferred = heard.iter_mut().find(|(_, h)| h.deferred);
            match (deferred, engine.poll_timeout()) {
                (Some((id, h)), _) => {
                    engine.handle(now, Input::Fetched(RequestId(*id)));
                    h.deferred = false;
                }
                (None, Some(due)) => {
                    now = now.max(due);
                    engine.handle_timeout(now);
                }
                (None, None) => break,
            }
            engine.check_invariants();
            listen(&mut engine, &mut heard, &mut last, now);
        }
        let stats = engine.stats();
        assert!(heard.values().all(|h| h.ended == 1 && h.held == h.released), "seed {seed}");
        assert_eq!((stats.outstanding(), stats.kv_referenced), (0, 0), "seed {seed}");
        assert_eq!(stats.finished() + stats.refused, heard.len() as u64, "seed {seed}");
        let tokens: u32 = heard.values().map(|h| h.tokens).sum();
        assert_eq!(stats.reply_tokens, u64::from(tokens), "seed {seed}");
        let preempted: u32 = heard.values().map(|h| h.preempted).sum();
        assert_eq!(stats.preemptions, u64::from(preempted), "seed {seed}");
    }
}

// Reporting only first tokens changes nothing but the reports.
#[test]
fn reports_do_not_change_the_engine() {
    for seed in 0..50 {
        let run = |outputs| {
            let mut rng = Rng::new(seed);
            let mut config = random_config(&mut rng);
            config.token_outputs = outputs;
            let mut engine = Engine::new(config, seed).unwrap();
            for id in 0..30 {
                engine.handle(
                    Time::from_millis(id * 50),
                    Input::Submit(random_submission(&mut rng, id)),
                );
            }
            while let Some(due) = engine.poll_timeout() {
                engine.handle_timeout(due);
            }
            engine.stats()
        };
        assert_eq!(run(TokenOutputs::Each), run(TokenOutputs::First), "seed {seed}");
    }
}
