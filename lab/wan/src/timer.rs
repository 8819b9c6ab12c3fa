//! A timer with microsecond precision.
//!
//! Tokio's own timers are rounded up to the next millisecond, which is a fifth of a short link's
//! delay. This one is the kernel's, as a file descriptor: nothing runs until it is due.

use std::future::pending;
use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use tokio::io::unix::AsyncFd;

/// One timer, set to one time or none.
pub(super) struct Timer {
    file: AsyncFd<OwnedFd>,
    set: Option<Instant>,
}

impl Timer {
    pub(super) fn new() -> io::Result<Timer> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let file = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        #[expect(deprecated, reason = "its successor is unsafe; the file is owned and not closed")]
        let file = AsyncFd::new(file)?;
        Ok(Timer { file, set: None })
    }

    /// Completes at that time; never if there is none. Dropping it is safe; it can be called again.
    pub(super) async fn until(&mut self, at: Option<Instant>) -> io::Result<()> {
        let Some(at) = at else { return pending().await };
        if self.set != Some(at) {
            // Zero would disarm it.
            let wait = at.saturating_duration_since(Instant::now()).max(Duration::from_nanos(1));
            let value = Timespec::try_from(wait).map_err(io::Error::other)?;
            let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
            let spec = Itimerspec { it_interval: zero, it_value: value };
            timerfd_settime(&self.file, TimerfdTimerFlags::empty(), &spec)?;
            self.set = Some(at);
        }
        loop {
            let mut ready = self.file.readable().await?;
            let mut expired = [0; 8];
            let read = ready.try_io(|file| Ok(rustix::io::read(file, &mut expired)?));
            // An expiry of an earlier setting leaves readiness but nothing to read.
            if let Ok(read) = read {
                read?;
                self.set = None;
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // It does not end early, ends at once for a past time, and can be set again while it waits.
    #[tokio::test]
    async fn it_ends_when_due() {
        let mut timer = Timer::new().expect("a timer can be made");
        let start = Instant::now();
        timer.until(Some(start)).await.expect("ends");
        let due = start + Duration::from_millis(5);
        timer.until(Some(due)).await.expect("ends");
        assert!(Instant::now() >= due);
        let far = Instant::now() + Duration::from_secs(3600);
        tokio::select! {
            biased;
            _ = timer.until(Some(far)) => panic!("an hour has not passed"),
            () = std::future::ready(()) => {}
        }
        timer.until(Some(start)).await.expect("ends");
    }
}
