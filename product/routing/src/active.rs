//! Active requests: those that have arrived and not yet ended.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::hash::{BuildHasherDefault, Hasher};
use hashbrown::HashMap;
use meridian_base::{PeerId, ReplicaId, RequestId, Time, mix};

use crate::growth::growth;
use crate::held::Waited;
use crate::legs::Fetch;
use crate::peer::MOST;
use crate::places::Permitted;
use crate::recall::Recall;
use crate::request::{Outcome, Request};
use crate::shadow::Shadowed;
use crate::steps::Mark;

/// Where a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestStage {
    /// In neither queue nor replica, while it is being decided about.
    Nowhere,
    /// In the held queue.
    Held,
    /// Sent to a replica. If it has a [`Fetch`], that replica fetches the KV of its prompt.
    At(ReplicaId),
    /// Sent to the prefill replica of its [`Fetch`]; this replica then answers.
    Prefilling(ReplicaId),
    /// Forwarded to a peer.
    Away(PeerId),
    /// Sent to a replica or peer that has since left; its id may belong to another by now.
    Orphan,
}

/// Expectations recorded when a request is forwarded.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Away {
    /// The peer's replica that it was meant for.
    pub(crate) meant: Option<ReplicaId>,
    /// Prompt blocks that the peer, and that replica, were expected to have cached.
    pub(crate) there: u32,
    pub(crate) at_meant: u32,
}

#[derive(Debug)]
pub(crate) struct Active {
    pub(crate) request: Request,
    /// Requests that arrived before it.
    pub(crate) number: u64,
    pub(crate) arrived: Time,
    /// From when its time in the queue counts: see [`Waited`].
    pub(crate) waits_from: Time,
    pub(crate) stage: RequestStage,
    pub(crate) attempt: u32,
    /// Replicas that failed this request.
    pub(crate) tried: Vec<ReplicaId>,
    /// Whether a failure of it was counted against a replica. Each request counts against one
    /// replica at most; otherwise one request that every engine fails would open every breaker in
    /// the region.
    pub(crate) blamed: bool,
    /// The first replica that answered with an error of its own, or handed over no KV. It is blamed
    /// if another replica then answers differently.
    pub(crate) suspect: Option<ReplicaId>,
    /// An engine's connection broke while serving it.
    pub(crate) died: bool,
    /// The prefill leg of this attempt, until the replica that answers has the KV.
    pub(crate) fetch: Option<Fetch>,
    /// A fetch that counts as ended, since the replica runs the request. If the answer does not
    /// stream, only its end shows whether that was so.
    pub(crate) presumed: Option<Fetch>,
    /// Whether this attempt has, or had, a prefill leg.
    pub(crate) split: bool,
    /// Prefill legs of it that failed. After two, after a failed transfer, or to resume a broken
    /// answer, it gets no further one.
    pub(crate) prefills_failed: u32,
    pub(crate) stays_whole: bool,
    /// Peers that failed or refused it, one bit each, and when the last of them did.
    pub(crate) tried_peers: u64,
    pub(crate) tried_at: Time,
    /// Places where its residency rules permit it.
    pub(crate) permitted: Permitted,
    pub(crate) away: Away,
    pub(crate) dispatched: Time,
    /// Prompt tokens matched and not matched at the replica it was sent to.
    pub(crate) matched: f32,
    pub(crate) unmatched: f32,
    /// Expected tokens of its reply, and the KV tokens to keep free for it.
    pub(crate) reply: f32,
    pub(crate) growth: f32,
    /// Tokens ahead of it: together with its TTFT they give the prefill speed. `None` if other
    /// clients' requests are ahead as well, or if the answer arrives in one piece.
    pub(crate) in_front: Option<f32>,
    /// Whether the replica where it is has computed its prompt.
    pub(crate) first_token: bool,
    /// Its replica's state at the first token.
    pub(crate) began: Option<Mark>,
    /// Whether the answer broke off and the next attempt resumes it.
    pub(crate) resumed: bool,
    /// Whether it is past its predicted first token and counted as overdue.
    pub(crate) overdue: bool,
    /// Its prefix matches when it was last examined in the queue.
    pub(crate) recall: Option<Box<Recall>>,
    /// The number of its newest decision in the journal; 0 for none.
    pub(crate) decision: u64,
    /// Whether it was in the queue when it was sent.
    pub(crate) left_queue: bool,
    /// Whether it waits in the queue although it would fit.
    pub(crate) by_choice: bool,
    /// The shadow's newest decision about it.
    pub(crate) shadowed: Option<Shadowed>,
    /// Blocks that its prefill replica and the one that answers had before, by the shadow's index.
    pub(crate) shadow_kept: [u32; 2],
}

impl Active {
    /// Prepares a request whose answer broke off to resume: the tokens already sent become part of
    /// the prompt, which now has these `blocks`, and its wait for a replica restarts.
    pub(crate) fn goes_on(&mut self, now: Time, blocks: Option<Vec<u64>>) {
        let Some(blocks) = blocks else { return };
        let grown = blocks.len().saturating_sub(self.request.blocks.len());
        let tokens = (grown as f32 * self.request.block_tokens) as u32;
        self.request.prompt_tokens = self.request.prompt_tokens.saturating_add(tokens);
        self.request.blocks = blocks;
        self.resumed = true;
        self.stays_whole = true;
        (self.arrived, self.waits_from) = (now, now);
    }

    /// Its times in the queue.
    pub(crate) fn waited(&self) -> Waited {
        Waited { since: self.arrived, from: self.waits_from }
    }

    /// The peers that can serve it and are permitted, a bit each.
    #[inline]
    pub(crate) fn peers(&self) -> u64 {
        self.request.peers & self.permitted.peers
    }

    /// Whether its prompt may be prefilled by another replica than the one that answers. If an
    /// engine died under it, one more gets it, and not two.
    #[inline]
    pub(crate) fn may_split(&self) -> bool {
        self.request.splits && !self.stays_whole && !self.died && self.request.pinned.is_none()
    }

    /// Whether it is at a replica or a peer.
    #[inline]
    pub(crate) fn is_away(&self) -> bool {
        use RequestStage::{At, Away, Prefilling};
        matches!(self.stage, At(_) | Prefilling(_) | Away(_))
    }

    /// Tokens that it has to compute where it is now.
    fn unmatched_here(&self) -> f32 {
        match (self.stage, self.fetch) {
            (RequestStage::Prefilling(_), Some(fetch)) => fetch.unmatched,
            _ => self.unmatched,
        }
    }

    /// Whether `replica` computes its prompt or its answer now.
    fn works_at(&self, replica: ReplicaId) -> bool {
        match self.stage {
            RequestStage::At(at) => at == replica,
            RequestStage::Prefilling(_) => self.fetch.is_some_and(|fetch| fetch.from == replica),
            _ => false,
        }
    }

    /// Whether one of its two legs is at `replica`.
    pub(crate) fn has_leg_at(&self, replica: ReplicaId) -> bool {
        let answers = match self.stage {
            RequestStage::At(at) | RequestStage::Prefilling(at) => at == replica,
            _ => false,
        };
        self.fetch.is_some_and(|fetch| answers || fetch.from == replica)
    }

    /// Whether residency rules apply to it.
    #[inline]
    pub(crate) fn is_restricted(&self) -> bool {
        !self.request.residence.is_free()
    }

    /// Records which replica is to blame for the failure of an attempt.
    pub(crate) fn note(&mut self, replica: ReplicaId, outcome: Outcome) {
        match outcome {
            Outcome::EngineError | Outcome::NoKv if !self.blamed => {
                self.suspect = self.suspect.or(Some(replica));
            }
            Outcome::ReplicaError | Outcome::Died | Outcome::Unreached => {
                self.blamed |= self.suspect.is_none();
            }
            _ => {}
        }
    }

    pub(crate) fn new(now: Time, number: u64, request: Request, reply: f32) -> Active {
        Active {
            permitted: Permitted::at_first(&request),
            growth: growth(1.0, reply, request.prompt_tokens as f32),
            died: request.died,
            reply,
            request,
            number,
            arrived: now,
            waits_from: now,
            stage: RequestStage::Nowhere,
            attempt: 0,
            tried: Vec::new(),
            blamed: false,
            suspect: None,
            fetch: None,
            presumed: None,
            split: false,
            prefills_failed: 0,
            stays_whole: false,
            tried_peers: 0,
            tried_at: now,
            away: Away::default(),
            dispatched: now,
            matched: 0.0,
            unmatched: 0.0,
            in_front: None,
            first_token: false,
            began: None,
            resumed: false,
            overdue: false,
            recall: None,
            decision: 0,
            left_queue: false,
            by_choice: false,
            shadowed: None,
            shadow_kept: [0; 2],
        }
    }
}

/// Ids are counters: one mix spreads them. Fixed, so that runs repeat.
#[derive(Default)]
pub(crate) struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for b in bytes {
            self.0 = mix(self.0, u64::from(*b));
        }
    }
    fn write_u64(&mut self, n: u64) {
        self.0 = mix(0x1F83_D9AB_FB41_BD6B, n);
    }
}

/// The table of active requests. Rows are boxed, so taking one out to decide about it and putting
/// it back moves only a pointer.
#[derive(Default)]
pub(crate) struct Actives {
    map: HashMap<RequestId, Box<Active>, BuildHasherDefault<IdHasher>>,
}

impl Actives {
    pub(crate) fn len(&self) -> usize {
        self.map.len()
    }

    pub(crate) fn insert(&mut self, active: Box<Active>) {
        let id = active.request.id;
        let before = self.map.insert(id, active);
        assert!(before.is_none(), "{id} is in the table once");
    }

    pub(crate) fn take(&mut self, id: RequestId) -> Option<Box<Active>> {
        self.map.remove(&id)
    }

    pub(crate) fn get(&self, id: RequestId) -> Option<&Active> {
        self.map.get(&id).map(|a| &**a)
    }

    pub(crate) fn get_mut(&mut self, id: RequestId) -> Option<&mut Active> {
        self.map.get_mut(&id).map(|a| &mut **a)
    }

    /// Requests forwarded to each peer that have not ended.
    pub(crate) fn away(&self) -> [u32; MOST] {
        let mut away = [0; MOST];
        for active in self.map.values() {
            if let RequestStage::Away(peer) = active.stage {
                away[peer.index()] += 1;
            }
        }
        away
    }

    /// Requests in the held queue.
    pub(crate) fn held(&self) -> usize {
        self.map.values().filter(|a| a.stage == RequestStage::Held).count()
    }

    /// The requests that will come to `replica` after their prefill, that fetch their KV there, and
    /// whose KV it holds.
    pub(crate) fn legs_at(&self, replica: ReplicaId) -> (u32, u32, u32) {
        let (mut coming, mut fetching, mut held) = (0, 0, 0);
        for active in self.map.values().filter(|active| active.has_leg_at(replica)) {
            match active.stage {
                RequestStage::Prefilling(to) => coming += u32::from(to == replica),
                RequestStage::At(to) if to == replica => fetching += 1,
                _ => held += 1,
            }
        }
        (coming, fetching, held)
    }

    /// The requests with a leg at `replica`.
    pub(crate) fn with_legs_at(&self, replica: ReplicaId) -> Vec<RequestId> {
        let all = self.map.values().filter(|active| active.has_leg_at(replica));
        let mut ids: Vec<_> = all.map(|active| active.request.id).collect();
        ids.sort_unstable();
        ids
    }

    /// The requests at replicas, in the order of their dispatch.
    pub(crate) fn dispatched(&self) -> Vec<&Active> {
        let all = self.map.values().map(|active| &**active);
        let is_sent =
            |a: &&Active| matches!(a.stage, RequestStage::At(_) | RequestStage::Prefilling(_));
        let mut there: Vec<_> = all.filter(is_sent).collect();
        there.sort_unstable_by_key(|active| (active.dispatched, active.number));
        there
    }

    /// Discards the kept prefix matches of held requests.
    pub(crate) fn forget_matches(&mut self) {
        self.map.values_mut().for_each(|active| active.recall = None);
    }

    /// Marks the requests at `peer` as orphans when it leaves.
    pub(crate) fn orphan_at_peer(&mut self, peer: PeerId) {
        for active in self.map.values_mut().filter(|a| a.stage == RequestStage::Away(peer)) {
            active.stage = RequestStage::Orphan;
        }
    }

    /// Marks the requests at `replica` as orphans when it leaves. Its id may belong to another by the
    /// time they end.
    pub(crate) fn orphan(&mut self, replica: ReplicaId) {
        for active in self.map.values_mut() {
            if active.stage == RequestStage::At(replica) {
                active.stage = RequestStage::Orphan;
                // The count of overdue requests left with the replica.
                active.overdue = false;
                // It served the model, so another one may come.
                active.request.awaited = true;
            }
            active.suspect = active.suspect.filter(|suspect| *suspect != replica);
            active.presumed = active.presumed.filter(|fetch| fetch.from != replica);
        }
    }

    /// The state of a request at `replica` whose first token is due; `None` when it is no longer
    /// waiting there. With `reports`, an answer that does not stream is not overdue.
    pub(crate) fn due(&mut self, id: RequestId, replica: ReplicaId, reports: bool) -> Option<Due> {
        let a = self.get_mut(id)?;
        if !a.works_at(replica) || a.first_token || a.overdue {
            return None;
        }
        // The driver may not see the end of a prefill leg either, so this is for that of an answer in
        // one piece as well.
        if reports && !a.request.streams {
            return Some(Due::Unseen { unmatched: a.unmatched_here() });
        }
        a.overdue = true;
        Some(Due::Overdue)
    }

    /// A request's prompt is computed, although no first token showed it.
    pub(crate) fn has_begun(&mut self, id: RequestId) {
        if let Some(active) = self.get_mut(id) {
            active.first_token = true;
        }
    }
}

/// A request whose first token is due.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Due {
    /// It is late, and counted so.
    Overdue,
    /// Its answer does not stream, so its first token does not show; with the prompt's tokens.
    Unseen { unmatched: f32 },
}
