//! How fast KV moves between the replicas of a pair, learned from transfers.
//!
//! A transfer takes a fixed time (the handshake, the second request, one step) and ms a token: the
//! KV bytes of a token over the rate of the slowest card on the way. Other transfers on the two
//! cards delay it, so their tokens count as well. Both parts are fitted to the time between the end
//! of the prefill and the first token: by pair of racks where they are known, otherwise by pair of
//! replicas. A link is like all of them together, from which it differs only as far as its transfers
//! prove it: otherwise the luckiest of equal links would carry everything.
//!
//! A pair whose transfer failed gets no request for a while, which doubles with each failure: the path
//! between two healthy replicas may be cut. Some transfers in a row that succeed end this, and so does
//! a minute after the pause. One does not: a path that loses every second transfer would be tried
//! again and again.
//!
//! Without racks a large fleet has more pairs than it makes sense to know: those without a recent
//! transfer are forgotten.

use alloc::collections::BTreeMap;
use hashbrown::HashTable;
use meridian_base::{Duration, Pace, Pool, ReplicaId, Time, mix};

use crate::evidence::Evidence;
use crate::line::Line;

/// ms a token until a transfer has been seen: 128 KiB a token, as of an 8B model, at 50 Gb/s.
const GUESS_MS: f32 = 0.02;
/// Fixed ms until a transfer has been seen.
const GUESS_FIXED_MS: f32 = 5.0;
/// Spread of the tokens that outweighs the guess: one prompt of 2,000.
const LEAN: f64 = 2000.0;
/// How far a rate may be from the guess, as a factor either way.
const SPAN: f32 = 1000.0;
/// Pause of a pair after its first failure, and the longest one.
const PAUSE: Duration = Duration::from_secs(2);
const PAUSE_MOST: Duration = Duration::from_secs(60);
/// After this time since its pause a pair has not failed.
const CALM: Duration = Duration::from_secs(60);
/// Transfers in a row that show that a path works again.
const ENOUGH: u32 = 4;
/// How often the evidence of links ages.
const AGES: Duration = Duration::from_secs(10);
/// Most links with a pace of their own: all pairs of 128 + 128 replicas.
const MOST: usize = 1 << 14;

/// One end of a link: a rack, or a replica without one. One number, because a decision looks up many
/// links.
#[derive(Clone, Copy, Debug)]
struct End(u32);

impl End {
    fn of(id: ReplicaId, pool: Pool) -> End {
        if pool.rack == 0 { End::replica(id) } else { End(u32::from(pool.rack)) }
    }

    fn replica(id: ReplicaId) -> End {
        End(u32::from(id.0) | 1 << 16)
    }
}

/// Two ends, as one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ends(u64);

impl Ends {
    fn of(from: (ReplicaId, Pool), to: (ReplicaId, Pool)) -> Ends {
        Ends(u64::from(End::of(from.0, from.1).0) << 32 | u64::from(End::of(to.0, to.1).0))
    }

    fn hash(self) -> u64 {
        mix(self.0, 0)
    }

    fn has(self, end: End) -> bool {
        [self.0 >> 32, self.0 & 0xffff_ffff].contains(&u64::from(end.0))
    }
}

/// The pace that a line through transfers says.
fn pace_of(line: &Line) -> Pace {
    let ms_per_token = (line.slope() as f32).clamp(GUESS_MS / SPAN, GUESS_MS * SPAN);
    Pace { fixed_ms: line.fixed() as f32, ms_per_token }
}

/// A pair whose transfers fail.
#[derive(Clone, Copy, Debug)]
struct Cut {
    until: Time,
    pause: Duration,
    /// Transfers that succeeded since.
    good: u32,
}

/// What is learned about one link.
#[derive(Clone, Copy, Debug)]
struct Link {
    ends: Ends,
    line: Line,
    /// By how much it differs from all links together.
    own: Evidence,
    /// Number of its last transfer.
    last: u64,
}

/// The learned paces of all links, and the pairs that fail.
#[derive(Debug)]
pub struct Links {
    all: Line,
    between: HashTable<Link>,
    cut: BTreeMap<(ReplicaId, ReplicaId), Cut>,
    /// Transfers seen.
    seen: u64,
    /// When the evidence of links was last aged.
    aged: Time,
}

impl Default for Links {
    fn default() -> Links {
        let all = Line::leaning_on(f64::from(GUESS_MS), LEAN);
        Links { all, between: HashTable::new(), cut: BTreeMap::new(), seen: 0, aged: Time::ZERO }
    }
}

impl Links {
    /// The pace from one replica to another: the mean, unless its transfers prove a difference.
    #[must_use]
    pub fn pace(&self, from: (ReplicaId, Pool), to: (ReplicaId, Pool)) -> Pace {
        let ends = Ends::of(from, to);
        let link = self.between.find(ends.hash(), |link| link.ends == ends);
        link.map_or_else(|| self.mean(), |link| self.pace_of(link))
    }

    /// The pace of all links together.
    #[must_use]
    pub fn mean(&self) -> Pace {
        let mean = pace_of(&self.all);
        if self.is_learned() { mean } else { Pace { fixed_ms: GUESS_FIXED_MS, ..mean } }
    }

    /// A link's own pace, as far as it is proven to differ from the mean.
    fn pace_of(&self, link: &Link) -> Pace {
        let (mean, own, weight) = (self.mean(), pace_of(&link.line), link.own.weight() as f32);
        let between = |mean: f32, own: f32| mean + (own - mean) * weight;
        Pace {
            fixed_ms: between(mean.fixed_ms, own.fixed_ms),
            ms_per_token: between(mean.ms_per_token, own.ms_per_token),
        }
    }

    /// Whether transfers of the pair fail, so that it gets no request now.
    #[must_use]
    pub fn is_cut(&self, now: Time, from: ReplicaId, to: ReplicaId) -> bool {
        self.cut.get(&(from, to)).is_some_and(|cut| now < cut.until)
    }

    /// Whether a transfer has been seen. Without one the paces are guesses.
    #[must_use]
    pub fn is_learned(&self) -> bool {
        self.seen > 0
    }

    /// The pairs whose transfers fail, from prefill to decode, with the rest of their pauses.
    pub fn cut_pairs(&self, now: Time) -> impl Iterator<Item = (ReplicaId, ReplicaId, Duration)> {
        let cut = self.cut.iter().filter(move |(_, cut)| now < cut.until);
        cut.map(move |((from, to), cut)| (*from, *to, cut.until.since(now)))
    }

    /// Adds a transfer that took `ms`, with `tokens` of its own and of others on the same cards.
    pub(crate) fn learn(
        &mut self,
        now: Time,
        from: (ReplicaId, Pool),
        to: (ReplicaId, Pool),
        ms: f32,
        tokens: f32,
    ) {
        if !(ms >= 0.0 && tokens >= 0.0 && (ms + tokens).is_finite()) {
            return;
        }
        self.age(now);
        let (x, y) = (f64::from(tokens), f64::from(ms));
        let expected = self.is_learned().then(|| self.all.fixed() + self.all.slope() * x);
        self.seen += 1;
        if self.between.len() >= MOST {
            // Each transfer is of one link, so at most half of them remain.
            let since = self.seen - MOST as u64 / 2;
            self.between.retain(|link| link.last > since);
        }
        let (guess, last) = (self.all.slope(), self.seen);
        let ends = Ends::of(from, to);
        let link =
            self.between.entry(ends.hash(), |link| link.ends == ends, |link| link.ends.hash());
        let new = || Link { ends, line: Line::leaning_on(guess, LEAN), own: Evidence::NONE, last };
        let mut link = link.or_insert_with(new);
        assert!(link.get().last <= last, "transfers are numbered in their order");
        let link = link.get_mut();
        link.last = last;
        link.line.guess(guess);
        link.line.add(x, y);
        if let Some(expected) = expected {
            link.own.add(y / expected);
        }
        // What is known of this link is no news of the others.
        self.all.add(x, y / link.own.factor());
    }

    /// Lets the evidence of all links age: a link that looks slow carries nothing that would correct it.
    fn age(&mut self, now: Time) {
        let since = now.since(self.aged);
        if since >= AGES {
            self.between.iter_mut().for_each(|link| link.own.age(since.as_secs_f64()));
            self.aged = now;
        }
    }

    /// A transfer of the pair succeeded.
    pub(crate) fn succeeded(&mut self, from: ReplicaId, to: ReplicaId) {
        if let Some(cut) = self.cut.get_mut(&(from, to)) {
            cut.good += 1;
            if cut.good >= ENOUGH {
                self.cut.remove(&(from, to));
            }
        }
    }

    /// A transfer of the pair failed.
    pub(crate) fn failed(&mut self, now: Time, from: ReplicaId, to: ReplicaId) {
        self.cut.retain(|_, cut| now < cut.until + CALM);
        let pause = match self.cut.get(&(from, to)) {
            // Requests that were under way at the same time fail together.
            Some(cut) if now < cut.until => return,
            Some(cut) => (cut.pause * 2).min(PAUSE_MOST),
            None => PAUSE,
        };
        self.cut.insert((from, to), Cut { until: now + pause, pause, good: 0 });
    }

    /// Forgets a replica that left: its id may become another's.
    pub(crate) fn leave(&mut self, id: ReplicaId) {
        let end = End::replica(id);
        self.between.retain(|link| !link.ends.has(end));
        self.cut.retain(|(from, to), _| *from != id && *to != id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(rack: u16) -> Pool {
        Pool { rack, ..Pool::default() }
    }

    fn about(pace: Pace, ms_per_token: f32) {
        assert!((pace.ms_per_token / ms_per_token - 1.0).abs() < 0.15, "{pace:?}");
    }

    // Replicas of the same racks share what was learned; other links start at the mean.
    #[test]
    fn paces_are_learned_by_rack() {
        let (p, d) = (|rack| (ReplicaId(1), pool(rack)), |rack| (ReplicaId(2), pool(rack)));
        let mut links = Links::default();
        assert_eq!(links.pace(p(1), d(2)), Pace { fixed_ms: 5.0, ms_per_token: 0.02 });
        for i in 0..80 {
            let tokens = 1000.0 + 100.0 * (i % 40) as f32;
            links.learn(Time::ZERO, p(1), d(2), 20.0 + 0.1 * tokens, tokens);
            links.learn(Time::ZERO, p(1), d(1), 20.0 + 0.001 * tokens, tokens);
        }
        let far = links.pace((ReplicaId(7), pool(1)), d(2));
        about(far, 0.1);
        assert!((far.fixed_ms - 20.0).abs() < 25.0, "{far:?}");
        assert!(links.pace(p(1), d(1)).ms_per_token < 0.01);
        assert_eq!(links.pace(p(5), d(6)), links.mean());
    }

    // Without racks each pair has its own pace, and a replica that left takes its paces with it.
    #[test]
    fn paces_without_racks() {
        let id = |n| (ReplicaId(n), pool(0));
        let mut links = Links::default();
        for i in 0..40 {
            let tokens = 500.0 * (1 + i % 8) as f32;
            links.learn(Time::ZERO, id(1), id(2), 0.2 * tokens, tokens);
            links.learn(Time::ZERO, id(1), id(3), 0.02 * tokens, tokens);
        }
        about(links.pace(id(1), id(2)), 0.2);
        about(links.pace(id(1), id(3)), 0.02);
        links.leave(ReplicaId(2));
        assert_eq!(links.pace(id(1), id(2)), links.mean());
    }

    // A link that was slow once is tried again: without transfers of its own it looks like the others
    // after a while.
    #[test]
    fn a_slow_link_is_forgotten() {
        let id = |n| (ReplicaId(n), pool(0));
        let at = |s| Time::ZERO + Duration::from_secs(s);
        let mut links = Links::default();
        for i in 0..40 {
            let tokens = 500.0 * (1 + i % 8) as f32;
            links.learn(at(1), id(1), id(2), 0.2 * tokens, tokens);
            (3..6).for_each(|n| links.learn(at(1), id(1), id(n), 0.02 * tokens, tokens));
        }
        assert!(links.pace(id(1), id(2)).ms_per_token > 0.1);
        for s in 0..3600 {
            links.learn(at(s), id(1), id(3), 0.02 * 2000.0, 2000.0);
        }
        assert_eq!(links.pace(id(1), id(2)), links.mean());
    }

    // Of many more pairs than are kept, the latest have a pace of their own.
    #[test]
    fn old_links_are_forgotten() {
        let id = |n| (ReplicaId(n), pool(0));
        let mut links = Links::default();
        let pairs = |n: u16| (0..n).flat_map(move |p| (0..n).map(move |d| (id(p), id(1000 + d))));
        for (p, d) in pairs(200) {
            links.learn(Time::ZERO, p, d, 100.0, 1000.0);
            assert!(links.between.len() <= MOST);
        }
        assert!(links.between.len() >= MOST / 2);
        let has = |p, d| links.between.iter().any(|link| link.ends == Ends::of(id(p), id(d)));
        assert!(has(199, 1199) && !has(0, 1000));
    }

    // Defect half-broken: a path that loses every second transfer is not tried again and again.
    // A failing pair pauses for twice as long each time, until some transfers in a row succeed.
    #[test]
    fn a_failing_pair_pauses() {
        let (p, d) = (ReplicaId(1), ReplicaId(2));
        let at = |s| Time::ZERO + Duration::from_secs(s);
        let mut links = Links::default();
        links.failed(at(10), p, d);
        links.failed(at(11), p, d);
        assert!(links.is_cut(at(11), p, d) && !links.is_cut(at(12), p, d));
        assert!(!links.is_cut(at(11), p, ReplicaId(3)));
        assert!(links.cut_pairs(at(11)).eq([(p, d, Duration::from_secs(1))]));
        assert_eq!(links.cut_pairs(at(12)).count(), 0);
        links.failed(at(12), p, d);
        assert!(links.is_cut(at(15), p, d) && !links.is_cut(at(16), p, d));
        links.succeeded(p, d);
        links.failed(at(20), p, d);
        assert!(links.is_cut(at(27), p, d) && !links.is_cut(at(28), p, d));
        (0..ENOUGH).for_each(|_| links.succeeded(p, d));
        links.failed(at(30), p, d);
        assert!(links.is_cut(at(31), p, d) && !links.is_cut(at(32), p, d));
    }

    // Rare failures are no row: a minute after its pause a pair starts with the shortest again.
    #[test]
    fn rare_failures_pause_for_a_short_time() {
        let (p, d) = (ReplicaId(1), ReplicaId(2));
        let at = |s| Time::ZERO + Duration::from_secs(s);
        let mut links = Links::default();
        for s in [100, 200, 300] {
            links.failed(at(s), p, d);
            assert!(links.is_cut(at(s + 1), p, d) && !links.is_cut(at(s + 2), p, d));
        }
        links.failed(at(310), p, d);
        assert!(links.is_cut(at(313), p, d));
    }
}
