//! Waiting for a permit: as a task, or as a thread.

use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use crate::error::GateError;
use crate::gate::Gate;
use crate::permit::{Handle, Permit};

impl Gate {
    /// Asks for a permit of up to `bytes`, or continues to wait for one that was asked for. Poll it
    /// again after [`Gate::hold`] even if it was not woken: only a client that waits sees that its port
    /// has stalled.
    ///
    /// # Errors
    /// If the transfer has ended or the gate has failed. The client then sends without a permit.
    pub fn poll_permit(
        &self,
        transfer: Handle,
        bytes: u32,
        context: &mut Context<'_>,
    ) -> Poll<Result<Permit, GateError>> {
        let permit = self.with(|state, now| {
            state.catch_up(now);
            state.take(now, transfer, bytes, context.waker())
        });
        match permit {
            Ok(Some(permit)) => Poll::Ready(Ok(permit)),
            Ok(None) => Poll::Pending,
            Err(error) => Poll::Ready(Err(error)),
        }
    }

    /// Waits for a permit of up to `bytes` and blocks the thread.
    ///
    /// # Errors
    /// If the transfer has ended or the gate has failed. The client then sends without a permit.
    pub fn permit(&self, transfer: Handle, bytes: u32) -> Result<Permit, GateError> {
        thread_local!(static WAKER: Waker = Waker::from(Arc::new(Unpark(std::thread::current()))));
        WAKER.with(|waker| {
            let mut context = Context::from_waker(waker);
            loop {
                if let Poll::Ready(permit) = self.poll_permit(transfer, bytes, &mut context) {
                    return permit;
                }
                std::thread::park_timeout(self.hold());
            }
        })
    }
}

/// Wakes a parked thread.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}
