//! Browsers that logged in at the admin port.
//!
//! A browser keeps a random id in a cookie; the table has the id's hash, so neither a memory dump nor
//! the time of a look-up gives an id away. A session ends after half a day, at a log-out, with the
//! process, and when the token that it began with is taken out of the file.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use ring::rand::{SecureRandom, SystemRandom};
use subtle::ConstantTimeEq;
use tokio::time::Instant;

use crate::inputs::tenants::hashed;

/// How long a session lasts.
pub(super) const LASTS: Duration = Duration::from_secs(12 * 3600);
/// Most sessions; beyond it the oldest ends.
const MOST: usize = 256;
/// Failed log-ins of one address within the window, and addresses that are counted.
const TRIES: u32 = 5;
pub(super) const WINDOW: Duration = Duration::from_secs(60);
const MOST_ADDRESSES: usize = 1024;

/// All of them, and the failed log-ins.
#[derive(Debug, Default)]
pub(crate) struct Sessions(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    /// By the hash of the id.
    sessions: HashMap<[u8; 32], Session>,
    failed: HashMap<IpAddr, Failed>,
}

/// One browser.
#[derive(Clone, Debug)]
pub(super) struct Session {
    /// Sent as `x-meridian-csrf` with every change.
    pub(super) csrf: String,
    pub(super) ends: Instant,
    /// The hash of the token that it began with.
    token: [u8; 32],
}

#[derive(Clone, Copy, Debug)]
struct Failed {
    count: u32,
    since: Instant,
}

impl Session {
    /// Whether a request brought this session's CSRF token.
    pub(super) fn allows(&self, csrf: Option<&[u8]>) -> bool {
        csrf.is_some_and(|csrf| self.csrf.as_bytes().ct_eq(csrf).into())
    }
}

impl Sessions {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().expect("no panic while held")
    }

    /// Begins a session with a token that was right: its id, and the session. None where the system
    /// gives no randomness.
    pub(super) fn begin(&self, token: [u8; 32]) -> Option<(String, Session)> {
        let (id, csrf) = (random()?, random()?);
        let now = Instant::now();
        let session = Session { csrf, ends: now + LASTS, token };
        let mut inner = self.inner();
        inner.sessions.retain(|_, session| session.ends > now);
        if inner.sessions.len() >= MOST {
            let oldest = inner.sessions.iter().min_by_key(|(_, one)| one.ends).map(|(id, _)| *id);
            oldest.map(|id| inner.sessions.remove(&id));
        }
        inner.sessions.insert(hashed(id.as_bytes()), session.clone());
        Some((id, session))
    }

    /// The session of an id, if it has not ended and its token is still one of `tokens`.
    pub(super) fn find(&self, id: &str, tokens: &[[u8; 32]]) -> Option<Session> {
        let session = self.inner().sessions.get(&hashed(id.as_bytes()))?.clone();
        (session.ends > Instant::now() && tokens.contains(&session.token)).then_some(session)
    }

    pub(super) fn end(&self, id: &str) {
        self.inner().sessions.remove(&hashed(id.as_bytes()));
    }

    /// Whether an address may try to log in; else how long it has to wait.
    pub(super) fn may_try(&self, address: IpAddr) -> Result<(), Duration> {
        let inner = self.inner();
        match inner.failed.get(&block(address)) {
            Some(failed) if failed.count >= TRIES && failed.since.elapsed() < WINDOW => {
                Err(WINDOW - failed.since.elapsed())
            }
            _ => Ok(()),
        }
    }

    /// A log-in failed.
    pub(super) fn failed(&self, address: IpAddr) {
        let mut inner = self.inner();
        let address = block(address);
        inner.failed.retain(|_, failed| failed.since.elapsed() < WINDOW);
        if inner.failed.len() >= MOST_ADDRESSES && !inner.failed.contains_key(&address) {
            let oldest = inner.failed.iter().min_by_key(|(_, one)| one.since).map(|(at, _)| *at);
            oldest.map(|at| inner.failed.remove(&at));
        }
        let first = Failed { count: 0, since: Instant::now() };
        inner.failed.entry(address).or_insert(first).count += 1;
    }
}

/// Who has one IPv6 address has the 2^64 beside it.
fn block(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(v6) => {
            let [a, b, c, d, ..] = v6.segments();
            [a, b, c, d, 0, 0, 0, 0].into()
        }
    }
}

/// 256 bits in hex digits.
fn random() -> Option<String> {
    let mut bytes = [0; 32];
    SystemRandom::new().fill(&mut bytes).ok()?;
    Some(bytes.iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: [u8; 32] = [7; 32];

    // Sessions end with time, at a log-out, and with their token; beyond the bound the oldest goes.
    #[tokio::test(start_paused = true)]
    async fn sessions_end() {
        let sessions = Sessions::default();
        let (first, session) = sessions.begin(TOKEN).expect("there is randomness");
        assert!(sessions.find(&first, &[TOKEN]).is_some());
        assert!(sessions.find(&first, &[[8; 32]]).is_none(), "its token was taken back");
        assert!(sessions.find("another", &[TOKEN]).is_none());
        assert!(session.allows(Some(session.csrf.as_bytes())));
        assert!(!session.allows(None) && !session.allows(Some(b"")));
        tokio::time::advance(Duration::from_secs(1)).await;
        let later: Vec<_> = (0..MOST).filter_map(|_| sessions.begin(TOKEN)).collect();
        assert_eq!(sessions.inner().sessions.len(), MOST);
        assert!(sessions.find(&first, &[TOKEN]).is_none(), "the oldest made room");
        let (id, _) = &later[0];
        sessions.end(id);
        assert!(sessions.find(id, &[TOKEN]).is_none());
        tokio::time::advance(LASTS).await;
        assert!(later.iter().all(|(id, _)| sessions.find(id, &[TOKEN]).is_none()));
    }

    // An address that failed five times waits for the rest of the minute; others don't, and the
    // table of them is bounded.
    #[tokio::test(start_paused = true)]
    async fn failed_log_ins_are_bounded() {
        let sessions = Sessions::default();
        let address = |n: u32| IpAddr::from(n.to_be_bytes());
        for _ in 0..TRIES {
            assert_eq!(sessions.may_try(address(1)), Ok(()));
            sessions.failed(address(1));
        }
        tokio::time::advance(Duration::from_secs(20)).await;
        assert_eq!(sessions.may_try(address(1)), Err(Duration::from_secs(40)));
        assert_eq!(sessions.may_try(address(2)), Ok(()));
        (10..10_000).for_each(|n| sessions.failed(address(n)));
        assert!(sessions.inner().failed.len() <= MOST_ADDRESSES);
        tokio::time::advance(WINDOW).await;
        assert_eq!(sessions.may_try(address(1)), Ok(()));
        let (a, b): (IpAddr, IpAddr) =
            ("2001:db8::1".parse().expect("is one"), "2001:db8::2".parse().expect("is one"));
        (0..TRIES).for_each(|_| sessions.failed(a));
        assert!(sessions.may_try(b).is_err(), "one network");
    }
}
