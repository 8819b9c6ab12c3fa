//! The gate: the machine's inputs as methods that any thread may call.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use meridian_base::{BatchId, PortId, RequestId, Time};
use meridian_flow::{Flow, Input, Owner, Ports, Refusal, Stage};
use meridian_messages::Settings;

use crate::batches::NewBatch;
use crate::clock::Clock;
use crate::counts::Status;
use crate::error::{GateError, SettingsError};
use crate::mailbox::{GateReport, Mailbox};
use crate::permit::Handle;
use crate::settings::machine;
use crate::state::GateState;

/// A gate. Its copies are the same gate.
#[derive(Clone)]
pub struct Gate(pub(crate) Arc<Shared>);

pub(crate) struct Shared {
    pub(crate) state: Mutex<GateState>,
    pub(crate) clock: Clock,
    pub(crate) mailbox: Mailbox,
    hold: Duration,
}

/// A transfer, as it is submitted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NewFlow<'a> {
    /// Its stage.
    pub stage: Stage,
    /// The number of its request, for a collective that of its batch.
    pub owner: u64,
    /// The layer that needs it, or that a handoff comes from.
    pub layer: u16,
    /// Its size.
    pub bytes: u64,
    /// Its ports, as indices into those of the settings; the one that is gated first.
    pub ports: &'a [u32],
}

impl Gate {
    /// A gate without a coordinator; see [`Gate::open`].
    ///
    /// # Errors
    /// If a setting is not valid.
    pub fn new(settings: &Settings, clock: Clock) -> Result<Gate, SettingsError> {
        let machine = machine(settings, clock.now())?;
        let hold = machine.config().max_hold;
        let ports = settings.ports.iter().map(|port| port.name.clone()).collect();
        let state = Mutex::new(GateState::new(machine, ports));
        Ok(Gate(Arc::new(Shared { state, clock, mailbox: Mailbox::default(), hold })))
    }

    /// How long a client waits at most before it looks whether its port has stalled.
    #[must_use]
    pub fn hold(&self) -> Duration {
        self.0.hold
    }

    /// A batch starts to compute.
    ///
    /// # Errors
    /// If it is not valid, or under way already.
    pub fn batch(&self, batch: &NewBatch) -> Result<(), GateError> {
        self.with(|state, now| state.batch(now, batch))?;
        self.0.mailbox.send(|| GateReport::Batch(batch.clone()));
        Ok(())
    }

    /// A batch reaches a layer. A new chunk of a prompt is a new generation.
    ///
    /// # Errors
    /// If the batch or the layer is unknown.
    pub fn layer(&self, batch: u64, generation: u32, layer: u16) -> Result<(), GateError> {
        self.with(|state, now| {
            let id = state.batches.row(batch).ok_or(GateError::UnknownBatch(batch))?;
            let input = Input::Layer { batch: id, generation, layer };
            state.act(now, input).map_err(GateError::Refused)
        })
    }

    /// A batch has computed all of its layers, or is abandoned.
    ///
    /// # Errors
    /// If it is unknown.
    pub fn departed(&self, batch: u64) -> Result<(), GateError> {
        self.with(|state, now| state.departed(now, batch))?;
        self.0.mailbox.send(|| GateReport::Departed(batch));
        Ok(())
    }

    /// A request has ended, with all of its transfers.
    ///
    /// # Errors
    /// If it is unknown.
    pub fn ended(&self, request: u64) -> Result<(), GateError> {
        self.with(|state, now| state.ended(now, request))?;
        self.0.mailbox.send(|| GateReport::Ended(request));
        Ok(())
    }

    /// A transfer is ready to be sent.
    ///
    /// # Errors
    /// If it is not valid, its owner is unknown, or too many are under way.
    pub fn submit(&self, flow: NewFlow<'_>) -> Result<Handle, GateError> {
        let NewFlow { stage, owner, layer, bytes, ports } = flow;
        let ids: Vec<_> = ports.iter().copied().map(PortId).collect();
        let ports = Ports::new(&ids).ok_or(GateError::Ports(ids.len(), Ports::MOST))?;
        self.with(|state, now| {
            let owner = match stage {
                Stage::Collective => {
                    Owner::Batch(state.batches.row(owner).ok_or(GateError::UnknownBatch(owner))?)
                }
                Stage::Reuse | Stage::Handoff => Owner::Request(RequestId(owner)),
            };
            state.submit(now, |id| Flow { id, owner, stage, layer, bytes, ports })
        })
    }

    /// Bytes of a transfer have been sent. It ends with its last byte.
    ///
    /// # Errors
    /// If it is unknown, or had fewer bytes left.
    pub fn completed(&self, transfer: Handle, bytes: u64) -> Result<(), GateError> {
        self.with(|state, now| state.completed(now, transfer, bytes))
    }

    /// The client gives a transfer up.
    ///
    /// # Errors
    /// If it is unknown.
    pub fn withdrawn(&self, transfer: Handle) -> Result<(), GateError> {
        self.with(|state, now| state.withdrawn(now, transfer))
    }

    /// The counts.
    #[must_use]
    pub fn status(&self) -> Status {
        let coordinator = self.0.mailbox.is_connected();
        let counted = self.with(|state, _| {
            let transfers = state.machine.len();
            let waiting = u32::try_from(state.slots.waiting()).unwrap_or(u32::MAX);
            Ok::<_, GateError>(Status { transfers, waiting, coordinator, ..state.counts.clone() })
        });
        counted.unwrap_or(Status { failed: true, coordinator, ..Status::default() })
    }

    /// Runs `act` under the lock. After a panic there, which is a defect of the machine, the gate has
    /// failed for good.
    pub(crate) fn with<T>(
        &self,
        act: impl FnOnce(&mut GateState, Time) -> Result<T, GateError>,
    ) -> Result<T, GateError> {
        let mut state = match self.0.state.lock() {
            Ok(state) => state,
            Err(poisoned) => {
                poisoned.into_inner().slots.wake_all();
                return Err(GateError::Failed);
            }
        };
        // Under the lock, so that time never goes back.
        let now = self.0.clock.now();
        act(&mut state, now)
    }

    pub(crate) fn row_of(&self, batch: u64) -> Option<(BatchId, u64)> {
        self.with(|state, _| Ok(state.batches.inside(batch))).ok().flatten()
    }
}

impl From<Refusal> for GateError {
    fn from(why: Refusal) -> GateError {
        GateError::Refused(why)
    }
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Gate").field(&self.status()).finish()
    }
}
