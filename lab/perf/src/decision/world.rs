//! The fleet that decisions are measured on: cached prefixes, and returning sessions.

use anyhow::Context;
use meridian_base::{Duration, ModelId, ReplicaId, RequestId, Rng, Time, mix};
use meridian_routing::{
    Config, Input, Load, Outcome, Output, Pool, ReplicaSpec, Request, Routing, ShadowConfig, policy,
};

/// Bytes of a block.
pub(super) const BLOCK: usize = 64;
/// Bytes of a prompt.
pub(super) const PROMPT: usize = 32 << 10;
/// Blocks of a prompt.
const CHAIN: usize = PROMPT / BLOCK;
/// Blocks of the system prompt that all replicas have cached: 6 KB.
const SHARED: usize = (6 << 10) / BLOCK;
const MODEL: ModelId = ModelId(0);
const KV_TOKENS: Option<u64> = Some(500_000);

/// A conversation: its prompt so far, and its replicas.
struct Session {
    name: u64,
    /// Blocks cached, including the system prompt's.
    held: usize,
    at: u16,
    also: Option<u16>,
}

/// Replicas and sessions.
pub(crate) struct DecisionFleet {
    replicas: u16,
    sessions: Vec<Session>,
    /// Distinct blocks held.
    pub(super) blocks: usize,
    /// Blocks times the replicas that hold them.
    pub(super) entries: usize,
}

impl DecisionFleet {
    /// Creates sessions until `blocks` distinct blocks are held. A third of them are held by two
    /// replicas; a session holds from a third of a prompt to nearly a whole one.
    pub(crate) fn new(seed: u64, replicas: u16, blocks: usize) -> DecisionFleet {
        let mut rng = Rng::new(seed).fork(3);
        let mut fleet = DecisionFleet {
            replicas,
            sessions: Vec::new(),
            blocks: SHARED,
            entries: SHARED * usize::from(replicas),
        };
        while fleet.blocks < blocks {
            let (name, held) = turns(&mut rng);
            let at = rng.below(usize::from(replicas)) as u16;
            let also = (rng.below(3) == 0).then(|| (at + 1) % replicas).filter(|a| *a != at);
            fleet.hold(Session { name, held, at, also });
        }
        fleet
    }

    /// The same with two pools: prefill replicas, and as many decode replicas with the higher ids.
    /// Each session is held by a prefill replica, and two thirds of them by a decode replica as well.
    pub(super) fn of_pools(seed: u64, each: u16, blocks: usize) -> DecisionFleet {
        let mut rng = Rng::new(seed).fork(4);
        let mut fleet = DecisionFleet::new(seed, 2 * each, 0);
        while fleet.blocks < blocks {
            let (name, held) = turns(&mut rng);
            let mut one = || rng.below(usize::from(each)) as u16;
            let (at, decode) = (one(), each + one());
            let also = (rng.below(3) > 0).then_some(decode);
            fleet.hold(Session { name, held, at, also });
        }
        fleet
    }

    fn hold(&mut self, session: Session) {
        let Session { held, also, .. } = session;
        self.blocks += held - SHARED;
        self.entries += (held - SHARED) * (1 + usize::from(also.is_some()));
        self.sessions.push(session);
    }

    /// Visits every chain with the replica that has it cached.
    pub(super) fn fill(&self, mut hold: impl FnMut(u16, &[u64])) {
        for replica in 0..self.replicas {
            hold(replica, &chain(0, SHARED));
        }
        for session in &self.sessions {
            let blocks = chain(session.name, session.held);
            for replica in [Some(session.at), session.also].into_iter().flatten() {
                hold(replica, &blocks);
            }
        }
    }

    /// The whole prompt of a returning session, longer than its cached part.
    pub(super) fn returning(&self, rng: &mut Rng) -> Vec<u64> {
        chain(self.sessions[rng.below(self.sessions.len())].name, CHAIN)
    }

    /// A request with this prompt.
    pub(super) fn request(&self, blocks: Vec<u64>) -> Request {
        let id = RequestId(blocks.last().copied().unwrap_or(0));
        Request {
            prompt_tokens: (blocks.len() * BLOCK / 4) as u32,
            block_tokens: (BLOCK / 4) as f32,
            blocks,
            peers: 0,
            ..Request::plain(id, MODEL)
        }
    }

    /// The routing machine with the default policy, filled through requests.
    pub(crate) fn routing(
        &self,
        seed: u64,
        shadow: Option<ShadowConfig>,
    ) -> anyhow::Result<Routing> {
        let default = policy::find("meridian").context("the default policy is registered")?;
        self.routing_of(seed, Config { shadow, ..Config::new(default) })
    }

    /// The same with another configuration.
    pub(super) fn routing_of(&self, seed: u64, config: Config) -> anyhow::Result<Routing> {
        let mut routing = Routing::new(Config { max_replicas: self.replicas, ..config }, seed);
        let now = Time::from_millis(1);
        for id in (0..self.replicas).map(ReplicaId) {
            routing.handle(now, Input::Joined { id, spec: spec(Pool::default()) });
            routing.handle(now, reported(now, id, u32::from(id.0 % 7)));
        }
        let mut sent = 0;
        self.fill(|replica, blocks| {
            let mut request = self.request(blocks.to_vec());
            request.id = RequestId(sent);
            request.pinned = Some(ReplicaId(replica));
            sent += 1;
            let (id, outcome) = (request.id, Outcome::Done);
            routing.handle(now, Input::Arrived(request));
            while let Some(output) = routing.poll() {
                debug_assert!(!matches!(output, Output::Reject { .. }), "nothing is refused");
            }
            routing.handle(now, finished(id, outcome));
            while routing.poll().is_some() {}
        });
        let held = routing.index().map_or(0, meridian_routing::PrefixIndex::len);
        anyhow::ensure!(held == self.entries, "the index holds {held} of {}", self.entries);
        Ok(routing)
    }
}

/// A replica.
pub(super) fn spec(pool: Pool) -> ReplicaSpec {
    ReplicaSpec {
        models: vec![MODEL],
        kv_tokens: KV_TOKENS,
        slots: None,
        weight: 1,
        rtt: Duration::ZERO,
        place: Default::default(),
        pool,
    }
}

/// A replica's report with this many running requests.
pub(super) fn reported(now: Time, id: ReplicaId, running: u32) -> Input {
    let (pending, running) = (Some(0), Some(running));
    let load = Load { pending, running, kv_used: Some(0.3), kv_tokens: KV_TOKENS };
    Input::Reported { id, asked: now, load }
}

/// The end of a request.
pub(super) fn finished(id: RequestId, outcome: Outcome) -> Input {
    Input::Finished { id, outcome, retry: false, usage: None, extended: None, served: None }
}

/// A session's name and its cached blocks.
fn turns(rng: &mut Rng) -> (u64, usize) {
    (rng.next_u64(), CHAIN / 3 + rng.below(CHAIN * 2 / 3))
}

/// The first `length` blocks of a session's prompt.
fn chain(session: u64, length: usize) -> Vec<u64> {
    let mut at = 1;
    let step = |i: usize| {
        at = mix(at, if i < SHARED { 0 } else { session });
        at
    };
    (0..length).map(step).collect()
}
