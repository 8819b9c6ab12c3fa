//! The faults of pairs: what breaks, and at which moment of a request.
//!
//! A deck contains every kind of fault and is shuffled by the seed. One fault is repaired before the
//! next one starts.

use meridian_base::Rng;
use meridian_protocol::admin::Role;

/// The moment of a request for which a fault waits, by the state of the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Moment {
    /// Any.
    Any,
    /// A prefill engine computes a prompt.
    Computing,
    /// A prefill engine holds KV and computes nothing.
    Holding,
    /// A decode engine fetches KV.
    Fetching,
    /// A decode engine sends an answer.
    Streaming,
}

/// The part that breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Target {
    Replica(Role),
    /// A prefill and a decode replica at once.
    Pair,
    Path,
    Gateway,
}

/// How it breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum How {
    Killed,
    Suspended,
    Restarted,
    Cut,
}

/// A kind of fault.
#[derive(Debug, PartialEq)]
pub(super) struct Kind {
    pub(super) name: &'static str,
    pub(super) target: Target,
    pub(super) how: How,
    pub(super) moment: Moment,
    /// Shortest and longest time until the repair, seconds.
    pub(super) lasts: [f64; 2],
}

const PREFILL: Target = Target::Replica(Role::Prefill);
const DECODE: Target = Target::Replica(Role::Decode);

const fn kind(
    name: &'static str,
    (target, how, moment): (Target, How, Moment),
    lasts: [f64; 2],
) -> Kind {
    Kind { name, target, how, moment, lasts }
}

/// All kinds.
pub(super) static KINDS: &[Kind] = &[
    kind("prefill killed before its answer", (PREFILL, How::Killed, Moment::Computing), [1.0, 3.0]),
    kind("prefill killed after its answer", (PREFILL, How::Killed, Moment::Holding), [1.0, 3.0]),
    kind(
        "decode killed before its first token",
        (DECODE, How::Killed, Moment::Fetching),
        [1.0, 3.0],
    ),
    kind("decode killed in mid-stream", (DECODE, How::Killed, Moment::Streaming), [1.0, 3.0]),
    kind("prefill suspended", (PREFILL, How::Suspended, Moment::Computing), [0.5, 5.0]),
    kind("prefill suspended with held KV", (PREFILL, How::Suspended, Moment::Holding), [0.5, 5.0]),
    kind("decode suspended", (DECODE, How::Suspended, Moment::Fetching), [0.5, 5.0]),
    kind("both suspended", (Target::Pair, How::Suspended, Moment::Fetching), [0.5, 5.0]),
    kind("both killed", (Target::Pair, How::Killed, Moment::Fetching), [1.0, 3.0]),
    kind("prefill restarted", (PREFILL, How::Restarted, Moment::Any), [0.5, 0.5]),
    kind("decode restarted", (DECODE, How::Restarted, Moment::Any), [0.5, 0.5]),
    kind("KV path cut", (Target::Path, How::Cut, Moment::Fetching), [2.0, 7.0]),
    kind("KV path reset", (Target::Path, How::Killed, Moment::Fetching), [1.0, 3.0]),
    // Longer than the lease: the gateway resumes with a prefill's answer whose KV is gone. It does not
    // use the parameters, and the decode replica computes the prompt.
    kind("lease expired", (Target::Gateway, How::Suspended, Moment::Computing), [4.5, 5.5]),
    kind(
        "gateway killed between legs",
        (Target::Gateway, How::Killed, Moment::Computing),
        [0.5, 1.5],
    ),
];

/// Kinds without end, each deck shuffled.
pub(super) struct Deck {
    rest: Vec<&'static Kind>,
}

impl Deck {
    pub(super) fn new() -> Deck {
        Deck { rest: Vec::new() }
    }

    pub(super) fn draw(&mut self, rng: &mut Rng) -> &'static Kind {
        if self.rest.is_empty() {
            self.rest = KINDS.iter().collect();
        }
        let at = rng.below(self.rest.len());
        self.rest.swap_remove(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // A deck has every kind once, in an order that depends on the seed alone.
    #[test]
    fn a_deck_has_every_kind() {
        let drawn = |seed| -> Vec<&str> {
            let (mut deck, mut rng) = (Deck::new(), Rng::new(seed));
            KINDS.iter().map(|_| deck.draw(&mut rng).name).collect()
        };
        assert_eq!(drawn(1), drawn(1));
        assert_ne!(drawn(1), drawn(2));
        let mut names = drawn(3);
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), KINDS.len());
    }
}
