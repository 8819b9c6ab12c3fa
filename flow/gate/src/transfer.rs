//! A transfer of a Rust client: it is withdrawn when it is dropped.

use std::task::{Context, Poll, Waker};

use crate::error::GateError;
use crate::gate::{Gate, NewFlow};
use crate::permit::{Handle, Permit};

/// A transfer under way.
#[derive(Debug)]
pub struct Transfer {
    gate: Gate,
    handle: Handle,
    left: u64,
}

impl Gate {
    /// Submits a transfer that is withdrawn when it is dropped.
    ///
    /// # Errors
    /// As [`Gate::submit`].
    pub fn transfer(&self, flow: NewFlow<'_>) -> Result<Transfer, GateError> {
        let handle = self.submit(flow)?;
        Ok(Transfer { gate: self.clone(), handle, left: flow.bytes })
    }
}

impl Transfer {
    /// Waits for a permit of up to `bytes`. The caller polls again after [`Gate::hold`].
    ///
    /// # Errors
    /// As [`Gate::poll_permit`].
    pub fn poll_permit(
        &self,
        bytes: u32,
        context: &mut Context<'_>,
    ) -> Poll<Result<Permit, GateError>> {
        self.gate.poll_permit(self.handle, bytes, context)
    }

    /// A permit of up to `bytes` if there is one now. Otherwise the transfer waits for it, and a later
    /// call gets it.
    ///
    /// # Errors
    /// As [`Gate::poll_permit`].
    pub fn try_permit(&self, bytes: u32) -> Result<Option<Permit>, GateError> {
        match self.poll_permit(bytes, &mut Context::from_waker(Waker::noop())) {
            Poll::Ready(permit) => permit.map(Some),
            Poll::Pending => Ok(None),
        }
    }

    /// Bytes of it have been sent.
    ///
    /// # Errors
    /// As [`Gate::completed`].
    pub fn completed(&mut self, bytes: u64) -> Result<(), GateError> {
        self.left = self.left.saturating_sub(bytes);
        self.gate.completed(self.handle, bytes)
    }
}

impl Drop for Transfer {
    fn drop(&mut self) {
        if self.left > 0 {
            // It may have ended with its request.
            let _ = self.gate.withdrawn(self.handle);
        }
    }
}
