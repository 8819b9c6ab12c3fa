//! Where the KV of a split attempt is, and what may happen to it next.
//!
//! ```text
//! prefilling ─▶ waiting ─▶ asked ─▶ moving ─▶ landed ─▶ fetched
//!                            ▲────────┘ the transfer breaks off
//! ```

use meridian_base::{Duration, FlowId, RequestId, Time};

/// Where the KV is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// It is being computed, or its answer is on the way to the gateway.
    Prefilling,
    /// The decode leg is on its way, or pending in its engine.
    Waiting,
    /// The decode engine has asked for it.
    Asked,
    /// It crosses the fabric.
    Moving(FlowId),
    /// All of it has crossed; the decode engine does not know yet.
    Landed,
    /// The decode engine has it.
    Fetched,
}

impl Stage {
    fn leads_to(self, next: Stage) -> bool {
        use Stage::{Asked, Fetched, Landed, Moving, Prefilling, Waiting};
        matches!(
            (self, next),
            (Prefilling, Waiting)
                | (Waiting, Asked)
                | (Asked, Moving(_))
                | (Moving(_), Landed | Asked)
                | (Landed, Fetched)
        )
    }
}

/// The KV of a split attempt.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Handoff {
    request: RequestId,
    from: u32,
    to: u32,
    stage: Stage,
    /// Bytes that the decode engine lacks, and when it asked for them.
    bytes: f64,
    asked: Time,
}

impl Handoff {
    /// A request's prompt is on its way to the replica `from`.
    pub(super) fn new(request: RequestId, from: u32, to: u32) -> Handoff {
        assert!(from != to, "{request} is split between replica {from} and itself");
        Handoff { request, from, to, stage: Stage::Prefilling, bytes: 0.0, asked: Time::ZERO }
    }

    pub(crate) fn request(&self) -> RequestId {
        self.request
    }

    /// The replica that computes the prompt.
    pub(crate) fn from(&self) -> u32 {
        self.from
    }

    /// The one that answers.
    pub(crate) fn to(&self) -> u32 {
        self.to
    }

    /// Bytes that the decode engine lacks.
    pub(crate) fn bytes(&self) -> f64 {
        self.bytes
    }

    /// For how long the decode engine has been waiting for them.
    pub(crate) fn time(&self, now: Time) -> Duration {
        assert!(now >= self.asked, "KV asked for at {:?} is there at {now:?}", self.asked);
        now.since(self.asked)
    }

    /// Whether the gateway still waits for the end of the prefill.
    pub(crate) fn is_prefilling(&self) -> bool {
        self.stage == Stage::Prefilling
    }

    /// Whether the decode engine has asked, and nothing crosses yet.
    pub(crate) fn has_asked(&self) -> bool {
        self.stage == Stage::Asked
    }

    /// Whether the KV crosses the fabric.
    pub(crate) fn is_moving(&self) -> bool {
        matches!(self.stage, Stage::Moving(_))
    }

    /// Whether all of it has crossed, and the decode engine does not know yet.
    pub(crate) fn has_landed(&self) -> bool {
        self.stage == Stage::Landed
    }

    /// Whether the decode engine has it.
    pub(crate) fn is_fetched(&self) -> bool {
        self.stage == Stage::Fetched
    }

    fn enter(&mut self, next: Stage) {
        let (before, id) = (self.stage, self.request);
        assert!(before.leads_to(next), "the KV of {id} goes from {before:?} to {next:?}");
        self.stage = next;
    }

    /// The request goes to the decode engine.
    pub(super) fn wait(&mut self) {
        self.enter(Stage::Waiting);
    }

    /// The decode engine asks for what it lacks.
    pub(super) fn ask(&mut self, now: Time, bytes: f64) {
        assert!(bytes >= 0.0, "{} lacks {bytes} bytes of KV", self.request);
        self.enter(Stage::Asked);
        (self.bytes, self.asked) = (bytes, now);
    }

    /// The KV starts to cross.
    pub(super) fn cross(&mut self, flow: FlowId) {
        self.enter(Stage::Moving(flow));
    }

    /// All of it has crossed.
    pub(super) fn land(&mut self) {
        self.enter(Stage::Landed);
    }

    /// The decode engine has it.
    pub(super) fn fetch(&mut self) {
        self.enter(Stage::Fetched);
    }

    /// Its transfer, if it has one, breaks off.
    pub(super) fn break_off(&mut self) -> Option<FlowId> {
        let flow = self.flow()?;
        self.enter(Stage::Asked);
        Some(flow)
    }

    /// Its transfer, if it has one.
    pub(super) fn flow(&self) -> Option<FlowId> {
        match self.stage {
            Stage::Moving(flow) => Some(flow),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // The KV moves stage by stage, and a transfer that breaks off may start again.
    #[test]
    fn stages() {
        let mut handoff = Handoff::new(RequestId(1), 2, 3);
        assert!(handoff.is_prefilling());
        handoff.wait();
        handoff.ask(Time::from_millis(5), 64.0);
        assert!(handoff.has_asked());
        handoff.cross(FlowId(1));
        assert_eq!(handoff.break_off(), Some(FlowId(1)));
        assert_eq!(handoff.break_off(), None);
        handoff.cross(FlowId(2));
        assert!(handoff.is_moving());
        handoff.land();
        assert!(handoff.has_landed() && handoff.flow().is_none());
        handoff.fetch();
        assert!(handoff.is_fetched());
        assert_eq!(handoff.time(Time::from_millis(7)), Duration::from_millis(2));
    }

    // No engine has KV that did not cross.
    #[test]
    #[should_panic(expected = "from Asked to Fetched")]
    fn nothing_is_skipped() {
        let mut handoff = Handoff::new(RequestId(1), 2, 3);
        handoff.wait();
        handoff.ask(Time::ZERO, 64.0);
        handoff.fetch();
    }
}
