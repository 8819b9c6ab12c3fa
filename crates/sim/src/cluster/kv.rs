//! Which replica has which prefix.
//!
//! A block id names the whole prompt up to it, and whoever has a block has all before it. KV is there
//! for others once its batch is over, and nothing is evicted within a run. What was fetched is kept by
//! the fetcher, but others fetch from those that had it first, so that a popular prefix makes its
//! first owners *victims*.

use std::collections::BTreeMap;

use super::setup::Request;

/// A rank of a prefill replica, or with its number of ranks left out, a whole one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Holder {
    pub(crate) replica: u32,
    pub(crate) rank: u32,
}

/// The blocks of one pool.
#[derive(Debug, Default)]
pub(crate) struct Directory {
    /// Who has a block, the first first.
    holders: BTreeMap<u64, Vec<Holder>>,
}

/// What is known of a request's prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Match {
    /// Tokens that some replica has, the last token of the prompt never among them.
    pub(crate) tokens: u32,
    /// Who they are fetched from.
    pub(crate) from: Holder,
}

impl Directory {
    /// The longest prefix, and one of its first `victims` holders: which one follows from `salt`.
    pub(crate) fn find(&self, request: &Request, victims: usize, salt: u64) -> Option<Match> {
        let leading = request.blocks.partition_point(|block| self.holders.contains_key(block));
        let last = request.blocks.get(leading.checked_sub(1)?)?;
        let holders = &self.holders[last];
        let nth = salt as usize % holders.len().min(victims);
        Some(Match { tokens: tokens(request, leading), from: holders[nth] })
    }

    /// Leading tokens that `has` is said of.
    pub(crate) fn held(&self, request: &Request, has: impl Fn(&Holder) -> bool) -> u32 {
        let held = |block: &u64| self.holders.get(block).is_some_and(|all| all.iter().any(&has));
        tokens(request, request.blocks.partition_point(held))
    }

    /// The request's prompt is now there too.
    pub(crate) fn enter(&mut self, request: &Request, holder: Holder) {
        for block in &request.blocks {
            let holders = self.holders.entry(*block).or_default();
            if !holders.contains(&holder) {
                holders.push(holder);
            }
        }
    }
}

fn tokens(request: &Request, blocks: usize) -> u32 {
    (blocks as u32).saturating_mul(request.block_tokens).min(request.tokens.saturating_sub(1))
}

/// Tokens of each request that earlier ones have asked for: what a cache without bounds has when every
/// earlier request is over, as at low load.
pub(crate) fn at_low_load(requests: &[Request]) -> Vec<u32> {
    let mut seen = Directory::default();
    let holder = Holder { replica: 0, rank: 0 };
    let each = |request: &Request| {
        let known = seen.held(request, |_| true);
        seen.enter(request, holder);
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

    // The second of two requests with a common beginning finds its two blocks; a repeated prompt is
    // never found whole, for its last token must be computed.
    #[test]
    fn prefixes_are_found_in_whole_blocks() {
        let requests = [asked(35, &[1, 2, 3]), asked(45, &[1, 2, 9, 10]), asked(30, &[1, 2, 3])];
        assert_eq!(at_low_load(&requests), [0, 20, 29]);
    }

    // Others fetch from who had it first, as many as are allowed.
    #[test]
    fn the_first_owners_are_the_victims() {
        let mut directory = Directory::default();
        let one = asked(35, &[1, 2, 3]);
        let holder = |replica| Holder { replica, rank: 0 };
        (0..3).for_each(|replica| directory.enter(&one, holder(replica)));
        let from = |victims, salt| directory.find(&one, victims, salt).map(|found| found.from);
        assert!((0..9).all(|salt| from(1, salt) == Some(holder(0))));
        assert_eq!([0, 1, 2].map(|salt| from(2, salt).unwrap().replica), [0, 1, 0]);
        assert_eq!(directory.held(&one, |has| *has == holder(2)), 30);
        assert_eq!(directory.held(&asked(9, &[4]), |_| true), 0);
    }
}
