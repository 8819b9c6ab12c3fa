//! What happened to a gateway's requests, for the other gateways of its region.
//!
//! Ids of replicas mean something in one process only, so a message names replicas by host and port,
//! each once, and its records have places in that list. A number that could not be read is not written,
//! and a chain of more blocks than a message has is truncated: its start is a chain, too.

use bytes::BufMut;
use meridian_base::{
    Branch, ModelId, PromptTiming, ReplicaId, RequestId, SiblingEnding, SiblingLine, SiblingRecord,
    SiblingRequest,
};
use prost::Message;

use super::bounds::{
    MOST_BLOCKS, MOST_EVENTS, MOST_HOST, MOST_NAMED, MOST_TENANTS, PeerError, amount, at_most, name,
};
use super::proto;
use super::proto::sibling_event::Kind;
use super::queue::{self, class, priority};

/// Protobuf's marker of a length-delimited field.
const LENGTH_DELIMITED: u8 = 2;

/// Records in one message, in the order of the events.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SiblingBatch(proto::Siblings);

impl SiblingBatch {
    /// Whether what was told before does not count any more.
    #[must_use]
    pub fn restarts(&self) -> bool {
        self.0.restart
    }

    /// How many records it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.events.len()
    }

    /// Whether it has no records.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.events.is_empty()
    }

    /// What tenants took from their limits: the hash of each name, requests and tokens.
    pub fn taken(&self) -> impl Iterator<Item = (u64, i64, i64)> + use<'_> {
        self.0.taken.iter().map(units)
    }

    /// The same, but all that is not earned back yet.
    pub fn levels(&self) -> impl Iterator<Item = (u64, i64, i64)> + use<'_> {
        self.0.levels.iter().map(units)
    }

    /// What waits in the sender's queue, if it tells that; without the lines of models of no known `id`.
    pub fn queue(&self, id: impl Fn(&str) -> Option<ModelId>) -> Option<Vec<SiblingLine>> {
        self.0.queue.as_ref().map(|told| queue::read(told, id))
    }

    /// Its length as a field of a message, without the tag.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.0.encoded_len()
    }

    /// Host and port of the replicas, and the records, whose ids of replicas are places in that list.
    #[must_use]
    pub fn into_records(self) -> (Vec<String>, Vec<SiblingRecord>) {
        let records = self.0.events.into_iter().filter_map(record).collect();
        (self.0.replicas, records)
    }

    /// Writes it as a field of a message.
    pub(super) fn write(&self, number: u8, to: &mut impl BufMut) {
        to.put_u8(number << 3 | LENGTH_DELIMITED);
        prost::encode_length_delimiter(self.bytes(), to).expect("the buffer grows");
        self.0.encode(to).expect("the buffer grows");
    }

    /// Checks what another gateway sent.
    pub(super) fn read(sent: proto::Siblings) -> Result<SiblingBatch, PeerError> {
        at_most("replicas", sent.replicas.len(), MOST_NAMED)?;
        sent.replicas.iter().try_for_each(|replica| name("replicas", replica, MOST_HOST))?;
        at_most("events", sent.events.len(), MOST_EVENTS)?;
        at_most("tenants", sent.taken.len() + sent.levels.len(), MOST_TENANTS)?;
        let blocks = sent.events.iter().map(|event| blocks(event).len()).sum();
        at_most("blocks", blocks, MOST_BLOCKS)?;
        sent.events.iter().try_for_each(|event| check(event, sent.replicas.len()))?;
        sent.queue.iter().try_for_each(queue::check)?;
        Ok(SiblingBatch(sent))
    }
}

/// Puts records into messages that a sibling accepts.
#[derive(Debug)]
pub struct Batches {
    full: Vec<SiblingBatch>,
    /// What tenants took; levels if it restarts.
    units: Vec<proto::SiblingUnits>,
    queue: Option<proto::SiblingQueue>,
    restarts: bool,
    open: proto::Siblings,
    /// Of the open one.
    blocks: usize,
}

impl Batches {
    /// With `restart`, the first message says that what was told before does not count any more.
    #[must_use]
    pub fn new(restart: bool) -> Batches {
        let open = proto::Siblings { restart, ..proto::Siblings::default() };
        Batches {
            full: Vec::new(),
            units: Vec::new(),
            queue: None,
            restarts: restart,
            open,
            blocks: 0,
        }
    }

    /// Adds a record. One that a request was sent needs host and port of its replica. With `hashes`, the
    /// sibling's hashes of prompts are comparable; otherwise blocks are left out.
    pub fn push(&mut self, record: &SiblingRecord, replica: Option<&str>, hashes: bool) {
        let replica = replica.filter(|replica| replica.len() <= MOST_HOST);
        if replica.is_none() && matches!(record, SiblingRecord::Sent(_)) {
            return;
        }
        let Some(mut event) = event(record, hashes) else { return };
        let blocks = blocks(&event).len();
        let named = &self.open.replicas;
        let is_new = replica.is_some_and(|new| named.iter().all(|named| named != new));
        if self.open.events.len() == MOST_EVENTS
            || self.blocks + blocks > MOST_BLOCKS
            || is_new && self.open.replicas.len() == MOST_NAMED
        {
            self.full.push(SiblingBatch(std::mem::take(&mut self.open)));
            self.blocks = 0;
        }
        if let (Some(Kind::Sent(sent)), Some(replica)) = (&mut event.kind, replica) {
            sent.replica = self.number(replica);
        }
        self.blocks += blocks;
        self.open.events.push(event);
    }

    /// Adds what a tenant took from its limits: the hash of its name, requests and tokens. If the messages
    /// restart, it is all that is not earned back yet.
    pub fn push_units(&mut self, (tenant, requests, tokens): (u64, i64, i64)) {
        self.units.push(proto::SiblingUnits { tenant, requests, tokens });
    }

    /// Sets what waits in the queue; lines of models without a `name` are left out.
    pub fn set_queue(&mut self, lines: &[SiblingLine], name: impl Fn(ModelId) -> Option<String>) {
        self.queue = Some(queue::written(lines, name));
    }

    /// The messages; none if there is nothing to tell.
    #[must_use]
    pub fn finish(mut self) -> Vec<SiblingBatch> {
        if self.open.restart || !self.open.events.is_empty() {
            self.full.push(SiblingBatch(self.open));
        }
        if self.queue.is_some() {
            let batch = proto::Siblings { queue: self.queue, ..proto::Siblings::default() };
            self.full.push(SiblingBatch(batch));
        }
        for units in self.units.chunks(MOST_TENANTS) {
            let (taken, levels) = match self.restarts {
                true => (Vec::new(), units.to_vec()),
                false => (units.to_vec(), Vec::new()),
            };
            let batch = proto::Siblings { taken, levels, ..proto::Siblings::default() };
            self.full.push(SiblingBatch(batch));
        }
        self.full
    }

    /// The place of a replica in the open message's list.
    fn number(&mut self, replica: &str) -> u32 {
        let named = &mut self.open.replicas;
        let at = named.iter().position(|named| named == replica).unwrap_or_else(|| {
            named.push(replica.to_owned());
            named.len() - 1
        });
        at as u32
    }
}

fn units(sent: &proto::SiblingUnits) -> (u64, i64, i64) {
    (sent.tenant, sent.requests, sent.tokens)
}

/// A record without the place of its replica; none for a queue, which has a message of its own.
fn event(record: &SiblingRecord, hashes: bool) -> Option<proto::SiblingEvent> {
    let (id, kind) = match record {
        SiblingRecord::Sent(request) => (request.id, Kind::Sent(sent(request, hashes))),
        SiblingRecord::FirstToken { id, prompt } => {
            let timing = prompt.as_ref().and_then(timing);
            (*id, Kind::FirstToken(proto::SiblingFirstToken { timing }))
        }
        SiblingRecord::Ended { id, ending, cached } => {
            let cached = cached.as_ref().filter(|_| hashes).map(branch);
            let ending = proto::SiblingEnding::from(*ending).into();
            (*id, Kind::Ended(proto::SiblingEnded { ending, cached }))
        }
        SiblingRecord::Queue(_) => return None,
    };
    Some(proto::SiblingEvent { id: id.0, kind: Some(kind) })
}

fn sent(request: &SiblingRequest, hashes: bool) -> proto::SiblingSent {
    let most = if hashes { MOST_BLOCKS } else { 0 };
    let number = |value: f32| if is_amount(value) { value } else { 0.0 };
    proto::SiblingSent {
        replica: 0,
        blocks: request.blocks.iter().take(most).copied().collect(),
        block_tokens: number(request.block_tokens),
        prompt_tokens: number(request.prompt_tokens),
        unmatched_tokens: number(request.unmatched_tokens),
        reply_tokens: number(request.reply_tokens),
        tenant: request.tenant,
        session: request.session,
        class: class(request.priority).into(),
        again: !request.counts,
    }
}

fn timing(prompt: &PromptTiming) -> Option<proto::SiblingTiming> {
    let PromptTiming { ttft_ms, tokens, in_front } = *prompt;
    let is_known = [ttft_ms, tokens, in_front].into_iter().all(is_amount);
    is_known.then_some(proto::SiblingTiming { ttft_ms, tokens, in_front })
}

/// Of a chain as its difference from the blocks that were sent, what continues those that arrive.
fn branch(cached: &Branch) -> proto::SiblingCached {
    let keep = (cached.keep as usize).min(MOST_BLOCKS);
    let blocks = cached.blocks.iter().take(MOST_BLOCKS - keep).copied().collect();
    proto::SiblingCached { keep: keep as u32, blocks }
}

fn is_amount(value: f32) -> bool {
    value.is_finite() && value >= 0.0
}

fn blocks(event: &proto::SiblingEvent) -> &[u64] {
    match &event.kind {
        Some(Kind::Sent(sent)) => &sent.blocks,
        Some(Kind::Ended(ended)) => ended.cached.as_ref().map_or(&[], |cached| &cached.blocks),
        Some(Kind::FirstToken(_)) | None => &[],
    }
}

fn check(event: &proto::SiblingEvent, replicas: usize) -> Result<(), PeerError> {
    match &event.kind {
        Some(Kind::Sent(sent)) => {
            if sent.replica as usize >= replicas {
                let value = f64::from(sent.replica);
                let allowed = "a place in the list of replicas";
                return Err(PeerError::Value { field: "replica", value, allowed });
            }
            amount("block_tokens", sent.block_tokens)?;
            amount("prompt_tokens", sent.prompt_tokens)?;
            amount("unmatched_tokens", sent.unmatched_tokens)?;
            amount("reply_tokens", sent.reply_tokens)?;
        }
        Some(Kind::FirstToken(proto::SiblingFirstToken { timing: Some(timing) })) => {
            amount("ttft_ms", timing.ttft_ms)?;
            amount("tokens", timing.tokens)?;
            amount("in_front", timing.in_front)?;
        }
        Some(Kind::Ended(proto::SiblingEnded { cached: Some(cached), .. })) => {
            at_most("keep", cached.keep as usize, MOST_BLOCKS)?;
        }
        Some(Kind::FirstToken(_) | Kind::Ended(_)) | None => {}
    }
    Ok(())
}

/// A checked record; none for a kind that a newer gateway added.
fn record(event: proto::SiblingEvent) -> Option<SiblingRecord> {
    let id = RequestId(event.id);
    Some(match event.kind? {
        Kind::Sent(sent) => SiblingRecord::Sent(SiblingRequest {
            id,
            tenant: sent.tenant,
            session: sent.session,
            priority: priority(sent.class()),
            counts: !sent.again,
            replica: ReplicaId(u16::try_from(sent.replica).expect("is a place in a short list")),
            blocks: sent.blocks,
            block_tokens: sent.block_tokens,
            prompt_tokens: sent.prompt_tokens,
            unmatched_tokens: sent.unmatched_tokens,
            reply_tokens: sent.reply_tokens,
        }),
        Kind::FirstToken(first) => {
            let prompt = first.timing.map(|timing| PromptTiming {
                ttft_ms: timing.ttft_ms,
                tokens: timing.tokens,
                in_front: timing.in_front,
            });
            SiblingRecord::FirstToken { id, prompt }
        }
        Kind::Ended(ended) => {
            let ending = SiblingEnding::from(ended.ending());
            let cached = ended.cached.map(|c| Branch { keep: c.keep, blocks: c.blocks });
            SiblingRecord::Ended { id, ending, cached }
        }
    })
}

impl From<SiblingEnding> for proto::SiblingEnding {
    fn from(ending: SiblingEnding) -> proto::SiblingEnding {
        match ending {
            SiblingEnding::Neutral => proto::SiblingEnding::Neutral,
            SiblingEnding::Answered => proto::SiblingEnding::Answered,
            SiblingEnding::Failed => proto::SiblingEnding::Failed,
        }
    }
}

impl From<proto::SiblingEnding> for SiblingEnding {
    fn from(ending: proto::SiblingEnding) -> SiblingEnding {
        match ending {
            proto::SiblingEnding::Neutral => SiblingEnding::Neutral,
            proto::SiblingEnding::Answered => SiblingEnding::Answered,
            proto::SiblingEnding::Failed => SiblingEnding::Failed,
        }
    }
}
