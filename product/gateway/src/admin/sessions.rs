//! Browser sessions at the admin port.
//!
//! A browser keeps a random id in a cookie. The table contains the id's hash, so neither a memory
//! dump nor the time of a lookup reveals an id. A session ends after half a day, on logout, with
//! the process, and when the token it was started with is removed from the file.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ring::rand::{SecureRandom, SystemRandom};
use subtle::ConstantTimeEq;
use tokio::time::Instant;

use crate::inputs::tenants::hashed;

/// Lifetime of a session.
pub(super) const LASTS: Duration = Duration::from_secs(12 * 3600);
/// Most sessions; starting another ends the oldest.
const MOST: usize = 256;
/// Most failed logins per address within the window, and most addresses that are counted.
const TRIES: u32 = 5;
pub(super) const WINDOW: Duration = Duration::from_secs(60);
const MOST_ADDRESSES: usize = 1024;

/// The sessions and the failed logins.
#[derive(Debug, Default)]
pub(crate) struct Sessions(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    /// Sessions by the hash of their id.
    sessions: HashMap<[u8; 32], Session>,
    failed: HashMap<IpAddr, Failed>,
}

/// One browser's session.
#[derive(Clone, Debug)]
pub(super) struct Session {
    /// Sent as `x-meridian-csrf` with every change.
    pub(super) csrf: String,
    pub(super) ends: Instant,
    /// Hash of the token it was started with.
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
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a session for a valid token: its id, and the session. None if the system provides no
    /// randomness.
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
        assert!(inner.sessions.len() <= MOST, "sessions end in time");
        Some((id, session))
    }

    /// The session with an id, if it has not expired and its token is still one of `tokens`.
    pub(super) fn find(&self, id: &str, tokens: &[[u8; 32]]) -> Option<Session> {
        let session = self.inner().sessions.get(&hashed(id.as_bytes()))?.clone();
        (session.ends > Instant::now() && tokens.contains(&session.token)).then_some(session)
    }

    pub(super) fn end(&self, id: &str) {
        self.inner().sessions.remove(&hashed(id.as_bytes()));
    }

    /// Runs a login attempt of an address: the result of `check`, or how long the address has to
    /// wait after too many failures. Reading the count, checking and counting are one step, so
    /// concurrent logins get no more attempts than sequential ones.
    pub(super) fn log_in<T>(
        &self,
        address: IpAddr,
        check: impl FnOnce() -> Option<T>,
    ) -> Result<Option<T>, Duration> {
        let (now, address) = (Instant::now(), network(address));
        let mut inner = self.inner();
        inner.failed.retain(|_, failed| failed.left(now).is_some());
        let failed = inner.failed.get(&address).filter(|failed| failed.count >= TRIES);
        if let Some(left) = failed.and_then(|failed| failed.left(now)) {
            return Err(left);
        }
        let known = check();
        if known.is_none() {
            inner.count_failed(address, now);
        }
        Ok(known)
    }
}

impl Inner {
    fn count_failed(&mut self, address: IpAddr, now: Instant) {
        if self.failed.len() >= MOST_ADDRESSES && !self.failed.contains_key(&address) {
            let oldest = self.failed.iter().min_by_key(|(_, one)| one.since).map(|(at, _)| *at);
            oldest.map(|at| self.failed.remove(&at));
        }
        self.failed.entry(address).or_insert(Failed { count: 0, since: now }).count += 1;
        assert!(self.failed.len() <= MOST_ADDRESSES, "addresses are forgotten in time");
    }
}

impl Failed {
    /// Time until its window ends; none after that.
    fn left(&self, now: Instant) -> Option<Duration> {
        let left = WINDOW.checked_sub(now.saturating_duration_since(self.since));
        left.filter(|left| !left.is_zero())
    }
}

/// Groups addresses that count as one: an IPv4 address, also in IPv6 form (`::ffff:a.b.c.d`, as a
/// dual-stack socket shows it), or 2^64 IPv6 addresses, since the owner of one has the others.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(v4) => v4.into(),
        IpAddr::V6(v6) => {
            let [a, b, c, d, ..] = v6.segments();
            [a, b, c, d, 0, 0, 0, 0].into()
        }
    }
}

/// 256 random bits in hex digits.
fn random() -> Option<String> {
    let mut bytes = [0; 32];
    SystemRandom::new().fill(&mut bytes).ok()?;
    Some(bytes.iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: [u8; 32] = [7; 32];

    // Sessions end with time, on logout, and with their token; beyond the limit the oldest ends.
    #[tokio::test(start_paused = true)]
    async fn sessions_end() {
        let sessions = Sessions::default();
        let (first, session) = sessions.begin(TOKEN).expect("there is randomness");
        assert!(sessions.find(&first, &[TOKEN]).is_some());
        assert!(sessions.find(&first, &[[8; 32]]).is_none(), "its token was removed");
        assert!(sessions.find("another", &[TOKEN]).is_none());
        assert!(session.allows(Some(session.csrf.as_bytes())));
        assert!(!session.allows(None) && !session.allows(Some(b"")));
        tokio::time::advance(Duration::from_secs(1)).await;
        let later: Vec<_> = (0..MOST).filter_map(|_| sessions.begin(TOKEN)).collect();
        assert_eq!(sessions.inner().sessions.len(), MOST);
        assert!(sessions.find(&first, &[TOKEN]).is_none(), "the oldest has ended");
        let (id, _) = &later[0];
        sessions.end(id);
        assert!(sessions.find(id, &[TOKEN]).is_none());
        tokio::time::advance(LASTS).await;
        assert!(later.iter().all(|(id, _)| sessions.find(id, &[TOKEN]).is_none()));
    }

    /// A login with a wrong token.
    fn wrong(sessions: &Sessions, address: IpAddr) -> Result<Option<()>, Duration> {
        sessions.log_in(address, || None)
    }

    // An address that failed five times waits for the rest of the minute, whatever it sends then.
    // Others don't wait, and the table of addresses is bounded.
    #[tokio::test(start_paused = true)]
    async fn failed_log_ins_are_bounded() {
        let sessions = Sessions::default();
        let address = |n: u32| IpAddr::from(n.to_be_bytes());
        for _ in 0..TRIES {
            assert_eq!(
                sessions.log_in(address(1), || Some(1)),
                Ok(Some(1)),
                "these are not counted"
            );
            assert_eq!(wrong(&sessions, address(1)), Ok(None));
        }
        tokio::time::advance(Duration::from_secs(20)).await;
        let wait = Err(Duration::from_secs(40));
        assert_eq!(
            sessions.log_in(address(1), || -> Option<()> { panic!("is not checked") }),
            wait
        );
        assert_eq!(wrong(&sessions, address(2)), Ok(None));
        (10..10_000).for_each(|n| assert_eq!(wrong(&sessions, address(n)), Ok(None)));
        assert!(sessions.inner().failed.len() <= MOST_ADDRESSES);
        tokio::time::advance(WINDOW).await;
        assert_eq!(wrong(&sessions, address(1)), Ok(None));
    }

    // At the very end of the window there is no wait left, and an earlier time never underflows.
    #[tokio::test(start_paused = true)]
    async fn the_window_ends() {
        let sessions = Sessions::default();
        let address = IpAddr::from([10, 0, 0, 1]);
        (0..TRIES).for_each(|_| assert_eq!(wrong(&sessions, address), Ok(None)));
        tokio::time::advance(WINDOW - Duration::from_nanos(1)).await;
        assert_eq!(wrong(&sessions, address), Err(Duration::from_nanos(1)));
        tokio::time::advance(Duration::from_nanos(1)).await;
        assert_eq!(wrong(&sessions, address), Ok(None));
    }

    // Addresses of one IPv6 network are counted together. Each IPv4 address is counted separately,
    // including those that a dual-stack socket shows as IPv6.
    #[tokio::test(start_paused = true)]
    async fn networks_are_told_apart() {
        let address = |text: &str| text.parse::<IpAddr>().expect("is one");
        for (failed, other, is_one) in [
            ("2001:db8::1", "2001:db8::2", true),
            ("2001:db8::1", "2001:db8:0:1::1", false),
            ("::ffff:10.0.0.1", "::ffff:10.0.0.2", false),
            ("::ffff:10.0.0.1", "10.0.0.1", true),
        ] {
            let sessions = Sessions::default();
            (0..TRIES).for_each(|_| assert_eq!(wrong(&sessions, address(failed)), Ok(None)));
            assert!(wrong(&sessions, address(failed)).is_err());
            assert_eq!(wrong(&sessions, address(other)).is_err(), is_one, "{failed} {other}");
        }
    }
}
