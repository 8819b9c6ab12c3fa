//! Locks that end the process when a panic could leave their data half changed.
//!
//! A panic poisons the standard locks, and every later `lock()` fails: a gateway whose routing
//! machine panicked once would keep running and fail every request. Its state can't be trusted
//! either. So the process aborts at once with a last line in its log, and a supervisor restarts it.
//! All state that requests share is behind these locks, above all the routing machine's.
//!
//! A panic outside these locks ends only its own task: one request. Read guards of [`RwLock`]
//! change nothing and abort nothing.

use std::ops::{Deref, DerefMut};
use std::sync::{self, PoisonError, RwLockReadGuard};
use std::thread::panicking;

use tokio::task::JoinSet;

/// A mutex that is never poisoned.
#[derive(Debug, Default)]
pub(crate) struct Mutex<T>(sync::Mutex<T>);

/// A reader-writer lock that is never poisoned.
#[derive(Debug, Default)]
pub(crate) struct RwLock<T>(sync::RwLock<T>);

/// The guard of a [`Mutex`].
pub(crate) type MutexGuard<'a, T> = Held<sync::MutexGuard<'a, T>>;

/// A guard that aborts the process when a panic unwinds through it.
pub(crate) struct Held<G> {
    guard: G,
    /// It was taken by a destructor during an unrelated panic.
    during_panic: bool,
}

impl<G> Held<G> {
    fn new(guard: G) -> Held<G> {
        Held { guard, during_panic: panicking() }
    }
}

impl<G: Deref> Deref for Held<G> {
    type Target = G::Target;
    fn deref(&self) -> &G::Target {
        &self.guard
    }
}

impl<G: DerefMut> DerefMut for Held<G> {
    fn deref_mut(&mut self) -> &mut G::Target {
        &mut self.guard
    }
}

impl<G> Drop for Held<G> {
    fn drop(&mut self) {
        if panicking() && !self.during_panic {
            abort("panic during a change of the shared state");
        }
    }
}

/// Ends the process with a last line in the log.
pub(crate) fn abort(why: &str) -> ! {
    tracing::error!(
        "{why}: the process exits, because its state may be inconsistent. Its supervisor must restart it. Please report the panic message above as a bug"
    );
    std::process::abort()
}

/// Aborts the process when one of the gateway's background tasks panics: without its timer, probes
/// or peers it would only look alive. A task that simply finishes changes nothing.
pub(crate) async fn abort_on_panic(background: &mut JoinSet<()>) {
    while let Some(ended) = background.join_next().await {
        if ended.is_err_and(|error| error.is_panic()) {
            abort("panic in a task that the gateway needs");
        }
    }
    std::future::pending().await
}

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Mutex<T> {
        Mutex(sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        Held::new(self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<T> RwLock<T> {
    pub(crate) fn new(value: T) -> RwLock<T> {
        RwLock(sync::RwLock::new(value))
    }

    pub(crate) fn read(&self) -> RwLockReadGuard<'_, T> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn write(&self) -> Held<sync::RwLockWriteGuard<'_, T>> {
        Held::new(self.0.write().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests;
