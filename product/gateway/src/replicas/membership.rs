//! Replicas join and leave: keeps the fleet, the machine and the tasks of each replica in step.

use std::sync::Arc;

use meridian_base::Duration;
use meridian_base::residency::MOST_PLACES;
use meridian_protocol::admin::AddReplica;
use meridian_routing::Input;

use crate::inputs::in_force::ConfigNow;
use crate::inputs::pins::Pins;
use crate::replicas::announce::announce;
use crate::replicas::discovery::watch;
use crate::replicas::drains::DrainReason;
use crate::replicas::fleet::{JoinError, check};
use crate::replicas::handover::Handover;
use crate::replicas::member::{Found, Member};
use crate::replicas::questions::Questions;
use crate::replicas::region::Region;

/// Polling interval for a draining replica.
pub(crate) const LOOK: Duration = Duration::from_millis(250);

/// The replicas of this gateway, for every part that adds or removes some.
pub(crate) struct Replicas {
    pub(crate) region: Arc<Region>,
    questions: Arc<Questions>,
    pins: Arc<Pins>,
    /// Present if there are peers.
    handover: Option<Arc<Handover>>,
    /// For `limits.replicas`. Replicas beyond a lower limit stay.
    config: Arc<ConfigNow>,
}

impl Replicas {
    pub(crate) fn new(
        region: Arc<Region>,
        questions: Arc<Questions>,
        pins: Arc<Pins>,
        handover: Option<Arc<Handover>>,
        config: Arc<ConfigNow>,
    ) -> Replicas {
        Replicas { region, questions, pins, handover, config }
    }

    /// `limits.replicas`.
    fn most(&self) -> u16 {
        self.config.now().config.limits.replicas
    }

    pub(crate) fn all(&self) -> Vec<Arc<Member>> {
        self.region.fleet.all()
    }

    /// The replica with this host and port.
    pub(crate) fn at(&self, authority: &str) -> Option<Arc<Member>> {
        self.region.fleet.at(authority)
    }

    /// The replica with a name, or with an id in digits.
    pub(crate) fn named(&self, name: &str) -> Option<Arc<Member>> {
        self.region.fleet.named(name)
    }

    /// Adds a replica to the region. It gets requests once it has reported its models.
    pub(crate) fn join(&self, spec: AddReplica) -> Result<Arc<Member>, JoinError> {
        self.join_from(spec, Duration::ZERO)
    }

    /// The same, for a replica that is `rtt` away.
    pub(crate) fn join_from(
        &self,
        spec: AddReplica,
        rtt: Duration,
    ) -> Result<Arc<Member>, JoinError> {
        let member = self.region.fleet.join(spec, rtt, self.most())?;
        let found = Found { models: member.spec.models.clone(), ..Found::default() };
        announce(&self.region.driver, &self.region.fleet, &member, &found);
        if !self.region.driver.lock().routing.is_numbered(member.id) {
            let (replica, region) = (member.id, &member.place.region);
            tracing::warn!(
                %replica, region, most = MOST_PLACES,
                "too many different places (region and labels of a replica); until one is free, this replica serves only requests without a residency rule; use fewer labels"
            );
        }
        if let Some(handover) = &self.handover {
            handover.joined(&member.authority);
        }
        let (region, questions) = (self.region.clone(), self.questions.clone());
        let found = member.clone();
        tokio::spawn(async move {
            tokio::select! {
                () = found.gone.cancelled() => {}
                () = watch(&region.driver, &region.fleet, &questions, &found) => {}
            }
        });
        Ok(member)
    }

    /// Adds the described replica, unless the replica `there` at its address has this description
    /// already; otherwise that one leaves first. Returns whether a replica joined.
    pub(crate) fn place(
        &self,
        there: Option<Arc<Member>>,
        spec: AddReplica,
        rtt: Duration,
    ) -> Result<(Arc<Member>, bool), JoinError> {
        match there {
            Some(member) if member.spec == spec && member.known_rtt == rtt => Ok((member, false)),
            there => {
                // A description that cannot be right removes no replica that serves.
                check(&spec)?;
                self.region.fleet.can_dial(&spec)?;
                let most = self.most();
                if let Some(member) = there {
                    if member.id.0 >= most {
                        return Err(JoinError::Full(most));
                    }
                    self.leave(&member);
                }
                Ok((self.join_from(spec, rtt)?, true))
            }
        }
    }

    /// Removes a replica at once. Its requests in flight continue until they end. Returns false if
    /// it had left before.
    pub(crate) fn leave(&self, member: &Member) -> bool {
        if !self.region.fleet.leave(member) {
            return false;
        }
        self.pins.forget(member.id);
        if let Some(handover) = &self.handover {
            handover.leaves(&member.authority, self.region.driver.holdings(member.id));
        }
        self.region.driver.tell(Input::Left(member.id));
        self.region.fleet.left(member, self.region.driver.clock.now());
        true
    }

    /// Drains a replica: it takes no new requests while there is a reason. Returns false if this
    /// reason was there before.
    pub(crate) fn drain(&self, member: &Member, reason: DrainReason) -> bool {
        let is_new = member.drains.add(reason, || {
            self.tell(member, Input::Draining(member.id), "draining", reason.word());
        });
        if is_new {
            tracing::info!(replica = %member.name, url = member.spec.url, ?reason, "replica drains");
        }
        is_new
    }

    /// Withdraws a reason to drain. Without any reason the replica takes requests again.
    pub(crate) fn resume(&self, member: &Member, reason: DrainReason) {
        member.drains.withdraw(reason, || {
            self.tell(member, Input::Resumed(member.id), "unproven", "resumed");
            tracing::info!(replica = %member.name, url = member.spec.url, "replica serves again");
        });
    }

    /// Informs the machine of a change, with which an interval begins.
    fn tell(&self, member: &Member, input: Input, state: &str, cause: &str) {
        let there = || {
            member.enters(state, cause);
            !member.gone.is_cancelled()
        };
        self.region.driver.tell_if(there, input);
    }

    /// Drains a replica and removes it once this gateway has no request there, unless the reason is
    /// withdrawn first.
    pub(crate) fn let_go(self: &Arc<Self>, member: &Arc<Member>, reason: DrainReason) {
        if !self.drain(member, reason) || self.is_let_go(member, reason) {
            return;
        }
        let (replicas, member) = (self.clone(), member.clone());
        tokio::spawn(async move {
            while !replicas.is_let_go(&member, reason) {
                tokio::select! {
                    () = member.gone.cancelled() => return,
                    () = tokio::time::sleep(LOOK) => {}
                }
            }
        });
    }

    /// Removes a draining replica if this gateway has no request there. Returns false if it has.
    fn is_let_go(&self, member: &Member, reason: DrainReason) -> bool {
        let is_over = || {
            let is_over = !self.is_busy(member);
            if is_over && self.leave(member) {
                tracing::info!(replica = %member.name, url = member.spec.url, ?reason, "replica drained and removed");
            }
            is_over
        };
        member.drains.while_has(reason, is_over).unwrap_or(true)
    }

    /// Whether a request of this gateway is running there, will come there after its prefill, or has
    /// yet to fetch its KV from there. False for a replica that has left: its id may be another's.
    fn is_busy(&self, member: &Member) -> bool {
        if member.gone.is_cancelled() {
            return false;
        }
        let now = self.region.driver.clock.now();
        let inner = self.region.driver.lock();
        let status = inner.routing.replicas().status(member.id, now);
        status.is_some_and(|status| status.own_outstanding + status.legs > 0)
    }
}
