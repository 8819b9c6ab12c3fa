//! The members of an etcd: which one is in use, and when another takes its place.
//!
//! There is a connection to each member that was used, not one that balances over all: an answer from a
//! balanced connection does not say which member failed, and a stopped one would slow down every other
//! call. A call that fails for a reason that another member may not have goes on there, and all later
//! calls with it.

use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use etcd_client::{Client, ConnectOptions, TlsOptions};
use meridian_base::Duration;
use meridian_config as config;
use meridian_tls::{FileError, Files, Look, Reread, open_client};
use tokio::sync::OnceCell;
use tokio::time::{Instant, sleep, timeout};
use tonic::transport::{Certificate, Identity};

use super::convert::Failed;
use super::version;
use crate::seldom::Seldom;

/// Timeout for a connection.
const CONNECT: Duration = Duration::from_secs(1);
/// Timeout for an answer. A leader's election takes one to two seconds.
const ANSWER: Duration = Duration::from_secs(2);
/// A call ends with an error after this long, if no member answers.
const CALL: Duration = Duration::from_secs(6);
/// Pause after every member has failed once.
const PAUSE: Duration = Duration::from_millis(100);
/// Interval and timeout of keep-alives: etcd closes connections of clients that ask more often than
/// every 5 s.
const KEEP_ALIVE: (Duration, Duration) = (Duration::from_secs(6), Duration::from_secs(3));

const _: () = assert!(ANSWER.as_secs() < CALL.as_secs(), "a call can go to a second member");
const _: () = assert!(KEEP_ALIVE.0.as_secs() > 5, "etcd closes connections that ask more often");

/// The members, and the connections to them.
pub(super) struct Members {
    endpoints: Vec<String>,
    connections: Reread<Connections>,
    /// Calls so far that left their member for the next. Its remainder is the member in use.
    moves: AtomicUsize,
    /// The log of them.
    seldom: Mutex<Seldom>,
}

/// Connections with the certificates that are in force.
struct Connections {
    options: ConnectOptions,
    clients: Vec<OnceCell<Client>>,
}

/// The answer to a call.
pub(super) struct Called<T> {
    pub(super) answer: T,
    /// Whether an earlier attempt may have been carried out.
    pub(super) is_repeated: bool,
}

impl Members {
    pub(super) fn new(config: &config::Etcd) -> Result<Members, FileError> {
        let (endpoints, paths, config) = (config.endpoints.clone(), paths(config), config.clone());
        let make = move || {
            let clients = config.endpoints.iter().map(|_| OnceCell::new()).collect();
            Ok(Connections { options: options(&config)?, clients })
        };
        let connections = Reread::new(paths, make)?;
        Ok(Members { endpoints, connections, moves: AtomicUsize::new(0), seldom: Mutex::default() })
    }

    pub(super) fn look(&self, now: bool) -> Look {
        if now { self.connections.reload() } else { self.connections.look() }
    }

    /// The address of the member in use.
    pub(super) fn in_use(&self) -> &str {
        &self.endpoints[self.moves.load(Ordering::Relaxed) % self.endpoints.len()]
    }

    /// The connection to the member in use, with the number to give to [`Members::leave`].
    pub(super) async fn client(&self) -> (usize, Result<Client, Failed>) {
        let at = self.moves.load(Ordering::Relaxed);
        let member = at % self.endpoints.len();
        let connections = self.connections.now();
        let (one_each, members) = (connections.clients.len(), self.endpoints.len());
        assert_eq!(one_each, members, "there is one connection for each member");
        let connect = async || {
            let options = Some(connections.options.clone());
            let client = Client::connect([&self.endpoints[member]], options).await?;
            tokio::spawn(warn_if_old(self.endpoints[member].clone(), client.clone()));
            Ok(client)
        };
        // With a user this waits for a first answer.
        let client = timeout(ANSWER, connections.clients[member].get_or_try_init(connect)).await;
        let client = match client {
            Ok(client) => client.cloned().map_err(Failed::not_sent),
            Err(_) => Err(Failed::late(ANSWER)),
        };
        (at, client)
    }

    /// The next member takes the place of the one of `at`, unless it has already.
    pub(super) fn leave(&self, at: usize, why: &Failed) {
        let next = at.wrapping_add(1);
        let moved = self.moves.compare_exchange(at, next, Ordering::Relaxed, Ordering::Relaxed);
        if moved.is_err() || self.endpoints.len() == 1 {
            return;
        }
        let due = self.seldom.lock().expect("no panic while held").is_due(Instant::now());
        if let Some(left_out) = due {
            let member = &self.endpoints[at % self.endpoints.len()];
            tracing::warn!(member, next = self.in_use(), %why, left_out, "an etcd member does not answer; the next one is asked");
        }
    }

    /// Calls the member in use, and others while they fail.
    pub(super) async fn call<T, F>(&self, act: impl Fn(Client) -> F) -> Result<Called<T>, Failed>
    where
        F: Future<Output = Result<T, etcd_client::Error>>,
    {
        let (start, mut is_repeated) = (Instant::now(), false);
        for attempt in 1.. {
            let (at, client) = self.client().await;
            let answered = match client {
                Ok(client) => within(&act, client).await,
                Err(failed) => Err(failed),
            };
            let mut failed = match answered {
                Ok(answer) => return Ok(Called { answer, is_repeated }),
                Err(failed) => failed,
            };
            is_repeated |= failed.may_be_done;
            failed.may_be_done = is_repeated;
            if !failed.is_of_member() || start.elapsed() > CALL {
                return Err(failed);
            }
            self.leave(at, &failed);
            if attempt % self.endpoints.len() == 0 {
                sleep(PAUSE).await;
            }
        }
        unreachable!("the loop has no end")
    }
}

/// Logs a doubt about a member's version, if it says one.
async fn warn_if_old(member: String, mut client: Client) {
    let Ok(Ok(status)) = timeout(ANSWER, client.status()).await else { return };
    if let Some(doubt) = version::doubt(status.version()) {
        tracing::warn!(member, version = status.version(), "this etcd has known defects: {doubt}");
    }
}

/// One attempt, and a second one if the client's token is older than etcd's users.
async fn within<T, F>(act: &impl Fn(Client) -> F, client: Client) -> Result<T, Failed>
where
    F: Future<Output = Result<T, etcd_client::Error>>,
{
    let late = |_| Failed::late(ANSWER);
    let attempt =
        async |client| timeout(ANSWER, act(client)).await.map_err(late)?.map_err(Failed::sent);
    match attempt(client.clone()).await {
        Err(failed) if failed.has_old_token() => {
            timeout(ANSWER, client.refresh_token())
                .await
                .map_err(late)?
                .map_err(Failed::not_sent)?;
            attempt(client).await
        }
        answered => answered,
    }
}

fn options(config: &config::Etcd) -> Result<ConnectOptions, FileError> {
    // Without a leader a member refuses, so that another one is asked.
    let mut options = ConnectOptions::new()
        .with_connect_timeout(CONNECT)
        .with_keep_alive(KEEP_ALIVE.0, KEEP_ALIVE.1)
        .with_require_leader(true)
        .with_auto_token_refresh(true);
    if let (Some(user), Some(password)) = (&config.user, &config.password) {
        options = options.with_user(user, password.expose());
    }
    if config.endpoints.iter().any(|one| one.starts_with("https://")) {
        options = options.with_tls(tls(config.tls.as_ref())?);
    }
    Ok(options)
}

fn tls(config: Option<&config::EtcdTls>) -> Result<TlsOptions, FileError> {
    let Some(config) = config else { return Ok(TlsOptions::new().with_native_roots()) };
    // Names the file if it is unusable; the client's own errors come with the first call.
    open_client("etcd.tls", &config.ca, &[])?;
    let mut tls = TlsOptions::new();
    if let Some(files) = files(config) {
        files.read()?;
        let read = |field, path: &PathBuf| {
            meridian_files::read(path, meridian_files::MOST)
                .map_err(|error| files.error(field, error))
        };
        let certificate = read("certificate", &files.certificate)?;
        tls = tls.identity(Identity::from_pem(certificate, read("key", &files.key)?));
    }
    let ca = meridian_files::read(&config.ca, meridian_files::MOST).map_err(|error| FileError {
        section: "etcd.tls".into(),
        field: "ca",
        path: config.ca.clone(),
        problem: error.to_string(),
        remedy: "use the certificate of the authority that issued those of etcd's members",
    })?;
    Ok(tls.ca_certificate(Certificate::from_pem(ca)))
}

/// The files of the certificate to show, if there is one.
fn files(config: &config::EtcdTls) -> Option<Files> {
    let (certificate, key) = config.certificate.clone().zip(config.key.clone())?;
    let ca = Some(config.ca.clone());
    Some(Files { section: "etcd.tls".into(), ca, crl: None, certificate, key })
}

fn paths(config: &config::Etcd) -> Vec<PathBuf> {
    let Some(tls) = &config.tls else { return Vec::new() };
    let own = [&tls.certificate, &tls.key].into_iter().flatten();
    std::iter::once(&tls.ca).chain(own).cloned().collect()
}
