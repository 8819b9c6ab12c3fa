//! A shadow policy: a second policy that decides too and is never followed.
//!
//! It decides about the region as it is at that moment: the same requests, loads and free capacity,
//! and an index of its own that learns what each replica really got. So each of its decisions says
//! what it would do now. What would have become of the caches and queues under it, only a
//! simulation shows (docs/routing.md).

use meridian_base::ReplicaId;

use crate::target::Target;
use crate::why::Why;

/// What the shadow would have done, beside what was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Would {
    /// The same.
    Same,
    /// Another replica of this region, or another one for the prompt.
    OtherReplica,
    /// The request was queued, and the shadow would send it.
    Send,
    /// The request was sent, and the shadow would queue it.
    Wait,
    /// The request stayed here, and the shadow would forward it.
    Forward,
    /// The request was forwarded, and the shadow would serve it here.
    Keep,
    /// The request was forwarded, and the shadow would forward it to another peer.
    OtherPeer,
}

impl Would {
    /// All, in the order of [`ShadowTotals::decisions`].
    pub const ALL: [Would; 7] = [
        Would::Same,
        Would::OtherReplica,
        Would::Send,
        Would::Wait,
        Would::Forward,
        Would::Keep,
        Would::OtherPeer,
    ];

    /// A stable word for metrics, logs and the explain endpoint.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Would::Same => "same",
            Would::OtherReplica => "other_replica",
            Would::Send => "would_send",
            Would::Wait => "would_wait",
            Would::Forward => "would_forward",
            Would::Keep => "would_keep",
            Would::OtherPeer => "other_peer",
        }
    }

    /// The one with this word.
    #[must_use]
    pub fn of_word(word: &str) -> Option<Would> {
        Would::ALL.into_iter().find(|would| would.word() == word)
    }

    /// `did` and `would` are the targets with the replica that computes the prompt; `None` for the
    /// queue.
    pub(crate) fn of(did: Option<Placed>, would: Option<Placed>) -> Would {
        match (did, would) {
            _ if did == would => Would::Same,
            (None, Some(_)) => Would::Send,
            (Some(_), None) => Would::Wait,
            (Some((Target::Replica(_), _)), Some((Target::Peer(_), _))) => Would::Forward,
            (Some((Target::Peer(_), _)), Some((Target::Replica(_), _))) => Would::Keep,
            (Some((Target::Peer(_), _)), Some((Target::Peer(_), _))) => Would::OtherPeer,
            _ => Would::OtherReplica,
        }
    }
}

/// Where a request goes: its target, and the replica that computes its prompt if it is another one.
pub(crate) type Placed = (Target, Option<ReplicaId>);

/// A shadow's decision.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shadowed {
    /// Its policy.
    pub policy: &'static str,
    /// Its decision beside the one that was made.
    pub would: Would,
    /// Its pick and the reason; `None` if it would queue the request.
    pub pick: Option<(Target, Why)>,
    /// The replica that would compute the prompt, if it is another one than the pick.
    pub prefill: Option<ReplicaId>,
    /// The figures of both picks; `None` unless both are replicas of this region.
    pub compared: Option<Compared>,
}

/// The figures of two picks for the same request, both by the tables of the policy in force. The
/// matches are those of its index, or of the shadow's if it has none.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Compared {
    /// Prompt tokens of the request.
    pub prompt_tokens: u32,
    /// Of those, expected in the cache where the prompt was sent.
    pub matched_tokens: u32,
    /// Of those, expected in the cache at the shadow's pick.
    pub shadow_matched_tokens: u32,
    /// Predicted time to the first token where the request was sent, ms.
    pub first_token_ms: f32,
    /// The same at the shadow's pick, ms.
    pub shadow_first_token_ms: f32,
}

/// Sums over a shadow's decisions since it was configured.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ShadowTotals {
    /// Decisions, by [`Would::ALL`].
    pub decisions: [u64; Would::ALL.len()],
    /// Of those, the ones with [`Shadowed::compared`]. The counts below are over these.
    pub compared: u64,
    /// Of those, the same.
    pub compared_same: u64,
    /// Prompt tokens.
    pub prompt_tokens: u64,
    /// Of those, expected in the cache where the prompt was sent.
    pub matched_tokens: u64,
    /// Of those, expected in the cache at the shadow's pick.
    pub shadow_matched_tokens: u64,
    /// Predicted time to the first token where the request was sent, ms.
    pub first_token_ms: f64,
    /// The same at the shadow's pick, ms.
    pub shadow_first_token_ms: f64,
}

impl ShadowTotals {
    /// Adds a decision.
    pub fn add(&mut self, would: Would, compared: Option<&Compared>) {
        self.decisions[would as usize] += 1;
        let Some(compared) = compared else { return };
        self.compared += 1;
        self.compared_same += u64::from(would == Would::Same);
        assert!(self.compared_same <= self.compared, "the same ones are among those compared");
        self.prompt_tokens += u64::from(compared.prompt_tokens);
        self.matched_tokens += u64::from(compared.matched_tokens);
        self.shadow_matched_tokens += u64::from(compared.shadow_matched_tokens);
        self.first_token_ms += f64::from(compared.first_token_ms);
        self.shadow_first_token_ms += f64::from(compared.shadow_first_token_ms);
    }

    /// Adds the sums of another gateway or of another time.
    pub fn merge(&mut self, other: &ShadowTotals) {
        self.decisions.iter_mut().zip(other.decisions).for_each(|(all, some)| *all += some);
        self.compared += other.compared;
        self.compared_same += other.compared_same;
        self.prompt_tokens += other.prompt_tokens;
        self.matched_tokens += other.matched_tokens;
        self.shadow_matched_tokens += other.shadow_matched_tokens;
        self.first_token_ms += other.first_token_ms;
        self.shadow_first_token_ms += other.shadow_first_token_ms;
    }

    /// All decisions.
    #[must_use]
    pub fn all(&self) -> u64 {
        self.decisions.iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use meridian_base::PeerId;

    // Each pair of decisions has one word, and each word names its variant.
    #[test]
    fn words() {
        let here = |id| Some((Target::Replica(ReplicaId(id)), None));
        let away = |id| Some((Target::Peer(PeerId(id)), None));
        let pair = Some((Target::Replica(ReplicaId(0)), Some(ReplicaId(1))));
        for (did, would, word) in [
            (here(0), here(0), "same"),
            (None, None, "same"),
            (here(0), here(1), "other_replica"),
            (here(0), pair, "other_replica"),
            (None, away(0), "would_send"),
            (away(0), None, "would_wait"),
            (here(0), away(0), "would_forward"),
            (away(0), here(0), "would_keep"),
            (away(0), away(1), "other_peer"),
        ] {
            assert_eq!(Would::of(did, would).word(), word);
        }
        for (at, would) in Would::ALL.into_iter().enumerate() {
            assert_eq!((Would::of_word(would.word()), would as usize), (Some(would), at));
        }
    }
}
