//! Requests to end a run: Ctrl-C, SIGTERM, or a closed terminal.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::{Error, Result};

/// A request to end the run.
pub(super) struct Stop {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

impl Stop {
    pub(super) fn new() -> Result<Stop> {
        let on = |kind| signal(kind).map_err(Error::file("listening for", "signals"));
        Ok(Stop {
            interrupt: on(SignalKind::interrupt())?,
            terminate: on(SignalKind::terminate())?,
            hangup: on(SignalKind::hangup())?,
        })
    }

    pub(super) async fn asked(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            _ = self.hangup.recv() => {}
        }
    }
}
