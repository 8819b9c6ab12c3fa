//! The prefixes that each replica has.
//!
//! A block id names the whole prompt up to it. Others can fetch KV once its batch has ended, and
//! nothing is evicted within a run. A prefix is fetched from one of the first holders of its last
//! block, so a popular one makes its first owners *victims*. The fetcher may keep it or not.

use std::collections::BTreeMap;

use super::setup::Request;

/// A rank of a prefill replica, or a whole replica if the rank is its number of ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Holder {
    pub(crate) replica: u32,
    pub(crate) rank: u32,
}

/// The blocks of one pool.
#[derive(Debug, Default)]
pub(crate) struct Directory {
    /// The holders of each block, the first first.
    holders: BTreeMap<u64, Vec<Holder>>,
}

/// A request's prefix, as seen from one rank.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct KvFound {
    /// Tokens that some rank has, never including the last token of the prompt.
    pub(crate) matched: u32,
    /// Tokens that this rank lacks, by the holder they are fetched from.
    pub(crate) fetch: Vec<(Holder, u32)>,
}

impl Directory {
    /// The longest prefix that this rank and others have together. The missing part comes from one
    /// of the first `victims` holders of each block; `salt` selects one.
    pub(crate) fn find(&self, asked: &Request, own: Holder, victims: usize, salt: u32) -> KvFound {
        let mut found = KvFound::default();
        for holders in self.leading(asked) {
            let tokens = asked.block_tokens.min(asked.tokens - 1 - found.matched);
            found.matched += tokens;
            if tokens == 0 || holders.contains(&own) {
                continue;
            }
            let from = holders[salt as usize % holders.len().min(victims)];
            match found.fetch.iter_mut().find(|(holder, _)| *holder == from) {
                Some((_, sum)) => *sum += tokens,
                None => found.fetch.push((from, tokens)),
            }
        }
        found
    }

    /// Holders of the leading blocks that any rank has.
    fn leading<'a>(&'a self, asked: &'a Request) -> impl Iterator<Item = &'a Vec<Holder>> {
        asked.blocks.iter().map_while(|block| self.holders.get(block))
    }

    /// Tokens of the prefix for which `has` is true.
    pub(crate) fn held(&self, asked: &Request, has: impl Fn(&Holder) -> bool) -> u32 {
        let held = self.leading(asked).filter(|holders| holders.iter().any(&has)).count();
        (held as u32).saturating_mul(asked.block_tokens).min(asked.tokens.saturating_sub(1))
    }

    /// Records that the request's prompt is now there too, from its first `skip` tokens on.
    pub(crate) fn enter(&mut self, request: &Request, skip: u32, holder: Holder) {
        let skip = (skip / request.block_tokens.max(1)) as usize;
        for block in request.blocks.iter().skip(skip) {
            let holders = self.holders.entry(*block).or_default();
            if !holders.contains(&holder) {
                holders.push(holder);
            }
        }
    }
}

/// Tokens of each request that `known` prompts and earlier requests contain: the match of an
/// unbounded cache if every earlier request has ended, as at low load.
pub(crate) fn at_low_load(known: &[Request], requests: &[Request]) -> Vec<u32> {
    let mut seen = Directory::default();
    let holder = Holder { replica: 0, rank: 0 };
    known.iter().for_each(|request| seen.enter(request, 0, holder));
    let each = |request: &Request| {
        let known = seen.held(request, |_| true);
        seen.enter(request, 0, holder);
        known
    };
    requests.iter().map(each).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use meridian_base::Time;

    fn asked(tokens: u32, blocks: &[u64]) -> Request {
        Request { at: Time::ZERO, tokens, block_tokens: 10, blocks: blocks.to_vec() }
    }

    // The second of two requests with a common prefix finds its two blocks; a repeated prompt is
    // never found whole, because its last token must be computed.
    #[test]
    fn prefixes_are_found_in_whole_blocks() {
        let requests = [asked(35, &[1, 2, 3]), asked(45, &[1, 2, 9, 10]), asked(30, &[1, 2, 3])];
        assert_eq!(at_low_load(&[], &requests), [0, 20, 29]);
        assert_eq!(at_low_load(&requests[..1], &requests[1..]), [20, 29]);
    }

    // Fetches go to the first holders, as many as allowed.
    #[test]
    fn the_first_owners_are_the_victims() {
        let mut directory = Directory::default();
        let one = asked(35, &[1, 2, 3]);
        let holder = |replica| Holder { replica, rank: 0 };
        (0..3).for_each(|replica| directory.enter(&one, 0, holder(replica)));
        let own = holder(7);
        let from = |victims, salt| directory.find(&one, own, victims, salt).fetch;
        assert!((0..9).all(|salt| from(1, salt) == [(holder(0), 30)]));
        assert_eq!([0, 1, 2].map(|salt| from(2, salt)[0].0.replica), [0, 1, 0]);
        let kept = directory.find(&one, holder(2), 1, 0);
        assert_eq!(kept, KvFound { matched: 30, fetch: vec![] });
        assert_eq!(directory.held(&one, |has| *has == holder(2)), 30);
        assert_eq!(directory.held(&asked(9, &[4]), |_| true), 0);
    }

    // A conversation after a template that another rank computed comes from both.
    #[test]
    fn a_prefix_may_come_from_several() {
        let mut directory = Directory::default();
        let holder = |replica| Holder { replica, rank: 0 };
        directory.enter(&asked(25, &[1, 2]), 0, holder(0));
        directory.enter(&asked(45, &[1, 2, 8, 9]), 20, holder(1));
        let found = directory.find(&asked(55, &[1, 2, 8, 9, 10]), holder(2), 1, 0);
        assert_eq!(found.matched, 40);
        assert_eq!(found.fetch, [(holder(0), 20), (holder(1), 20)]);
    }
}
