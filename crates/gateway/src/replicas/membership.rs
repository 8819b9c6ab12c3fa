//! Replicas join and leave: keeps the fleet, the machine and the tasks of each replica in step.

use std::sync::Arc;

use meridian_base::Duration;
use meridian_routing::Input;
use meridian_routing::residency::MOST_PLACES;
use meridian_wire::admin::AddReplica;

use crate::inputs::pins::Pins;
use crate::machine::driver::Driver;
use crate::replicas::announce::announce;
use crate::replicas::discovery::watch;
use crate::replicas::fleet::{Fleet, Found, JoinError, Member};
use crate::replicas::handover::Handover;
use crate::replicas::questions::Questions;

/// Polling interval for a draining replica.
const LOOK: Duration = Duration::from_millis(250);

/// The replicas of this gateway, for every part that adds or removes some.
pub(crate) struct Replicas {
    fleet: Arc<Fleet>,
    driver: Arc<Driver>,
    questions: Arc<Questions>,
    pins: Arc<Pins>,
    /// Present if there are peers.
    handover: Option<Arc<Handover>>,
    /// `limits.replicas`.
    most: u16,
}

impl Replicas {
    pub(crate) fn new(
        fleet: Arc<Fleet>,
        driver: Arc<Driver>,
        questions: Arc<Questions>,
        pins: Arc<Pins>,
        handover: Option<Arc<Handover>>,
        most: u16,
    ) -> Replicas {
        Replicas { fleet, driver, questions, pins, handover, most }
    }

    pub(crate) fn all(&self) -> Vec<Arc<Member>> {
        self.fleet.all()
    }

    /// The replica with a name, or with an id in digits.
    pub(crate) fn named(&self, name: &str) -> Option<Arc<Member>> {
        self.fleet.named(name)
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
        let member = self.fleet.join(spec, rtt, self.most)?;
        let found = Found { models: member.spec.models.clone(), ..Found::default() };
        announce(&self.driver, &self.fleet, &member, &found);
        if !self.driver.lock().routing.is_numbered(member.id) {
            let (replica, region) = (member.id, &member.place.region);
            tracing::warn!(
                %replica, region, most = MOST_PLACES,
                "replicas stand in too many places (a region with the replica's labels); until one is free, this replica serves only requests that no residency rule names; use fewer labels"
            );
        }
        if let Some(handover) = &self.handover {
            handover.joined(&member.authority);
        }
        let (driver, fleet) = (self.driver.clone(), self.fleet.clone());
        let (questions, found) = (self.questions.clone(), member.clone());
        tokio::spawn(async move {
            tokio::select! {
                () = found.gone.cancelled() => {}
                () = watch(&driver, &fleet, &questions, &found) => {}
            }
        });
        Ok(member)
    }

    /// Removes a replica at once. Its requests in flight continue until they end.
    pub(crate) fn leave(&self, member: &Member) {
        if !self.fleet.leave(member) {
            return;
        }
        self.pins.forget(member.id);
        if let Some(handover) = &self.handover {
            handover.leaves(&member.authority, self.driver.holdings(member.id));
        }
        self.driver.tell(Input::Left(member.id));
        self.fleet.left(member.id);
    }

    /// Drains a replica: it takes no new requests.
    pub(crate) fn drain(&self, member: &Member) {
        self.driver.tell_if(|| !member.gone.is_cancelled(), Input::Draining(member.id));
    }

    /// Ends the draining of a replica.
    pub(crate) fn resume(&self, member: &Member) {
        self.driver.tell_if(|| !member.gone.is_cancelled(), Input::Resumed(member.id));
    }

    /// Whether a request of this gateway is running there. False for a replica that has left: its
    /// id may be another's.
    pub(crate) fn is_busy(&self, member: &Member) -> bool {
        if member.gone.is_cancelled() {
            return false;
        }
        let now = self.driver.clock.now();
        let inner = self.driver.lock();
        inner.routing.replicas().status(member.id, now).is_some_and(|s| s.own_outstanding > 0)
    }

    /// Removes a draining replica once this gateway has no request there.
    pub(crate) async fn leave_when_done(&self, member: &Member) {
        while self.is_busy(member) {
            tokio::select! {
                () = member.gone.cancelled() => return,
                () = tokio::time::sleep(LOOK) => {}
            }
        }
        self.leave(member);
        tracing::info!(replica = %member.name, "replica drained and removed");
    }
}
