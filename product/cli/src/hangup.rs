//! SIGHUP, which `systemctl reload`, log rotation and a closed terminal send.
//!
//! It never ends a server: the gateway and the control plane reload; a model engine and the WAN
//! relay have nothing to reload and keep running. Commands that a user runs to see their result end
//! with the terminal, which is the system's default and which `nohup` prevents.

use std::io::Write as _;
use std::sync::Arc;

use anyhow::Context;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::Notify;

fn hangups() -> anyhow::Result<Signal> {
    signal(SignalKind::hangup()).context("cannot watch for SIGHUP")
}

/// Notified at each SIGHUP from now on. Several before the next wait count as one.
pub fn reloads() -> anyhow::Result<Arc<Notify>> {
    let mut hangups = hangups()?;
    let reload = Arc::new(Notify::new());
    let notify = reload.clone();
    tokio::spawn(async move {
        while hangups.recv().await.is_some() {
            notify.notify_one();
        }
    });
    Ok(reload)
}

/// Keeps the process alive at SIGHUP from now on, and says that `what` has nothing to reload.
pub fn survive(what: &'static str) -> anyhow::Result<()> {
    let mut hangups = hangups()?;
    tokio::spawn(async move {
        while hangups.recv().await.is_some() {
            // The terminal may be gone.
            let _ = writeln!(
                std::io::stderr(),
                "SIGHUP: {what} has nothing to reload, and keeps running"
            );
        }
    });
    Ok(())
}
