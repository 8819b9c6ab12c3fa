//! The timeout between two pieces of an answer.
//!
//! Normally it is `timeouts.idle`. Once the replica is down, it is `timeouts.down`, counted from
//! then or from the last piece. A stopped process keeps its connections open and sends nothing
//! more, while one with broken status pages keeps streaming. No timer is set or woken for a piece;
//! the timer checks the clock when it fires.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use meridian_config::Timeouts;
use tokio::time::Instant;

use crate::replicas::member::Member;

type Wait = Pin<Box<dyn Future<Output = ()> + Send>>;

pub(crate) struct Silence {
    /// The replica; none for a peer's answer.
    member: Option<Arc<Member>>,
    idle: Duration,
    down: Duration,
    last: Instant,
    wait: Wait,
}

impl Silence {
    /// For an answer that starts now.
    pub(crate) fn new(timeouts: &Timeouts, member: Option<Arc<Member>>) -> Silence {
        let last = Instant::now();
        let idle = timeouts.idle.0;
        let wait = wait(member.as_deref(), last + idle);
        Silence { member, idle, down: timeouts.down.0, last, wait }
    }

    /// A piece arrived.
    pub(crate) fn heard(&mut self) {
        self.last = Instant::now();
        if let Some(member) = &self.member {
            member.life.answered();
        }
    }

    /// Ready with the reason when the answer should be given up.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<&'static str> {
        loop {
            ready!(self.wait.as_mut().poll(cx));
            let now = Instant::now();
            let idle = self.last + self.idle;
            if idle <= now {
                return Poll::Ready("the replica sent nothing for timeouts.idle");
            }
            self.wait = match self.member.as_ref().and_then(|member| member.life.down_since()) {
                None => wait(self.member.as_deref(), idle),
                Some(since) => {
                    let due = self.last.max(since) + self.down;
                    if due <= now {
                        return Poll::Ready(
                            "the replica is down, and sent nothing for timeouts.down",
                        );
                    }
                    // The replica may be up again by then.
                    wait(None, due.min(idle))
                }
            };
        }
    }
}

/// Waits until `due`, or until the replica goes down.
fn wait(member: Option<&Member>, due: Instant) -> Wait {
    let sleep = tokio::time::sleep_until(due);
    let Some(down) = member.map(|member| member.life.down()) else { return Box::pin(sleep) };
    Box::pin(async move {
        tokio::select! {
            () = sleep => {}
            () = down.cancelled_owned() => {}
        }
    })
}
