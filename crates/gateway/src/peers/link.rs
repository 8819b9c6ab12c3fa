//! Following a peer: the connection to it, kept up, and what it tells handed to the machine.
//!
//! A lost connection is made again, after a pause that doubles. The peer stays in the machine for
//! a while without one, its digest growing old; when it was not heard of for that long, it leaves,
//! and joins again with its first answer. Heartbeats measure the round trip as long as the stream
//! lives; the shortest since the last digest goes to the machine with it.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};
use std::time::Duration;

use http::uri::PathAndQuery;
use hyper::body::Incoming;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use meridian_base::{PeerId, Rng, Time, keyed};
use meridian_routing::{Input, PeerSpec};
use meridian_wire::admin;
use meridian_wire::config;
use meridian_wire::peer::{Ask, FOLLOW, Hearing, Identity, MOST_MESSAGE, News, PeerError, Tell};
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout};
use tokio_stream::wrappers::ReceiverStream;
use tonic::body::Body;
use tonic::client::{Grpc, GrpcService};
use tonic::{Request, Status, Streaming};

use super::codec::Messages;
use super::{PATIENCE, Peers, Tls, TlsError, tls};
use crate::driver::Driver;
use crate::shared::Shared;

/// The first pause after a lost connection, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// Characters that are kept of an error: the other side may have written it.
const MOST_PROBLEM: usize = 400;

/// One peer that is followed.
pub(crate) struct Link {
    pub(super) id: PeerId,
    pub(super) identity: Identity,
    address: String,
    near: bool,
    name_hash: u64,
    state: Mutex<State>,
    /// Held requests to ask it for. Set under the machine's lock, so it is not in the state, under
    /// whose lock the machine is told of the peer.
    steal: AtomicU32,
    wants: Notify,
}

#[derive(Debug, Default)]
struct State {
    is_up: bool,
    /// In the machine.
    is_joined: bool,
    prefixes: bool,
    /// Digests handed to the machine, over all streams.
    digests: u64,
    heard: Option<Instant>,
    problem: Option<String>,
}

/// Why a stream ended.
#[derive(Debug, thiserror::Error)]
enum Broken {
    #[error("{0} cannot be reached: {1}")]
    Connect(String, std::io::Error),
    #[error("{0}")]
    Named(#[from] tls::NameError),
    #[error("the certificate is of {0}")]
    Other(Identity),
    #[error("{0}")]
    Http(#[from] hyper::Error),
    #[error("{0}")]
    Refused(#[from] meridian_wire::peer::Refused),
    #[error("it tells what can't be: {0}")]
    News(#[from] PeerError),
    #[error("{}", .0.message())]
    Status(#[from] Status),
    #[error("{0}")]
    Silent(&'static str),
}

impl Link {
    pub(super) fn new(
        id: PeerId,
        peer: &config::Peer,
        peers: &config::Peers,
        tls: &Tls,
    ) -> Result<Link, TlsError> {
        let identity = Identity::new(tls.identity.fleet(), &peer.region, &peer.name)?;
        if identity == tls.identity {
            return Err(TlsError::Itself(identity));
        }
        let name_hash = keyed(0, identity.dns_name().as_bytes());
        Ok(Link {
            id,
            address: peer.address.clone(),
            near: peers.is_near(peer),
            name_hash,
            identity,
            state: Mutex::default(),
            steal: AtomicU32::new(0),
            wants: Notify::new(),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic while held")
    }

    pub(super) fn steal(&self, count: u32) {
        self.steal.store(count, Ordering::Relaxed);
        self.wants.notify_one();
    }

    pub(super) fn status(&self, driver: &Driver) -> admin::Peer {
        let told = {
            let inner = driver.lock();
            inner.routing.peers().row(self.id).map(|row| admin::Peer {
                rtt_ms: row.rtt_ms,
                held: row.held,
                eligible: row.eligible,
                usable: row.usable,
                utilisation: row.utilisation,
                ..admin::Peer::default()
            })
        };
        let state = self.state();
        admin::Peer {
            name: self.identity.gateway().to_owned(),
            region: self.identity.region().to_owned(),
            address: self.address.clone(),
            state: if state.is_up {
                "up"
            } else if state.is_joined {
                "lost"
            } else {
                "gone"
            }
            .to_owned(),
            prefixes: state.prefixes,
            digests: state.digests,
            problem: state.problem.clone(),
            ..told.unwrap_or_default()
        }
    }

    /// It was heard of: it is in the machine from now on.
    fn heard(&self, shared: &Shared, rtt: Duration) {
        let mut state = self.state();
        state.heard = Some(Instant::now());
        if !state.is_joined {
            state.is_joined = true;
            let spec = PeerSpec { rtt, near: self.near, name_hash: self.name_hash };
            shared.driver.tell(Input::PeerJoined { id: self.id, spec });
        }
    }

    /// Takes it out of the machine if it was not heard of for `gone`; else says when to look again.
    fn leave_if_gone(&self, shared: &Shared, gone: Duration) -> Duration {
        let mut state = self.state();
        let silent = state.heard.map_or(Duration::ZERO, |at| at.elapsed());
        if state.is_joined && silent >= gone {
            state.is_joined = false;
            shared.driver.tell(Input::PeerLeft(self.id));
            tracing::warn!(peer = %self.identity, "a peer is gone");
        }
        gone.saturating_sub(silent).max(gone / 4)
    }
}

/// Takes the peer out of the machine when it was not heard of, for ever.
pub(super) async fn watch(shared: Arc<Shared>, peers: Arc<Peers>, link: Arc<Link>) {
    loop {
        let again = link.leave_if_gone(&shared, peers.config.gone.0);
        sleep(again).await;
    }
}

/// Keeps the stream up, for ever.
pub(super) async fn keep(shared: Arc<Shared>, peers: Arc<Peers>, link: Arc<Link>) {
    let mut rng = Rng::new(link.name_hash ^ shared.reading.seed);
    let (first, most) = PAUSES;
    let mut pause = first;
    loop {
        let mut session = Session::new(&shared, &peers, &link);
        let broken = session.run().await;
        let was_up = std::mem::take(&mut link.state().is_up);
        pause = if was_up { first } else { (pause * 2).min(most) };
        let problem = whole(&broken);
        let is_new = link.state().problem.replace(problem.clone()) != Some(problem.clone());
        if was_up || is_new {
            tracing::warn!(peer = %link.identity, error = problem, "a peer is not connected");
        }
        // Many gateways that lost one peer do not come back at the same moment.
        sleep(pause.mul_f64(0.5 + rng.unit())).await;
    }
}

/// An error with what caused it, as far as that says more.
fn whole(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text.chars().take(MOST_PROBLEM).collect()
}

/// One stream, from dialling to its end.
struct Session<'a> {
    shared: &'a Shared,
    peers: &'a Peers,
    link: &'a Link,
    hearing: Hearing,
    /// The shortest round trip since the last digest.
    rtt: Option<Duration>,
}

impl<'a> Session<'a> {
    fn new(shared: &'a Shared, peers: &'a Peers, link: &'a Link) -> Session<'a> {
        Session { shared, peers, link, hearing: Hearing::default(), rtt: None }
    }

    async fn run(&mut self) -> Broken {
        match self.stream().await {
            Ok(never) => match never {},
            Err(broken) => broken,
        }
    }

    async fn stream(&mut self) -> Result<std::convert::Infallible, Broken> {
        let (asks, queue) = mpsc::channel(4);
        let opening = timeout(PATIENCE, self.open(&asks, queue)).await;
        let (mut tells, _connection) =
            opening.map_err(|_| Broken::Silent("it does not answer within 5 s"))??;
        let beat = self.peers.config.beat.0;
        let mut beats = interval(beat);
        beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let gone = self.peers.config.gone.0;
        let mut silent = std::pin::pin!(sleep(gone));
        loop {
            let ask = tokio::select! {
                tell = tells.message() => {
                    let tell = tell?.ok_or(Broken::Silent("it closed the stream"))?;
                    self.told(tell)?;
                    silent.as_mut().reset(Instant::now() + gone);
                    continue;
                }
                _ = beats.tick() => Ask::Heartbeat(self.shared.driver.clock.now().as_nanos()),
                () = self.link.wants.notified() => {
                    Ask::Steal(self.link.steal.swap(0, Ordering::Relaxed))
                }
                () = &mut silent => return Err(Broken::Silent("it is silent")),
            };
            // A queue that is full holds heartbeats already: the peer is slow, or gone.
            let _ = asks.try_send(ask);
        }
    }

    /// Connects, and exchanges hellos.
    async fn open(
        &self,
        asks: &mpsc::Sender<Ask>,
        queue: mpsc::Receiver<Ask>,
    ) -> Result<(Streaming<Tell>, Connection), Broken> {
        let (channel, connection) = self.connect().await?;
        let origin = format!("https://{}", self.link.identity.dns_name());
        let origin = origin.parse().expect("labels and dots are a host");
        let mut grpc = Grpc::with_origin(channel, origin).max_decoding_message_size(MOST_MESSAGE);
        grpc.ready().await?;
        let _ = asks.try_send(Ask::Hello(self.peers.hello.clone()));
        let messages = Messages::<Ask, Tell>::default();
        let request = Request::new(ReceiverStream::new(queue));
        let path = PathAndQuery::from_static(FOLLOW);
        let mut tells = grpc.streaming(request, path, messages).await?.into_inner();
        let Some(Tell::Hello(theirs)) = tells.message().await? else {
            return Err(Broken::Silent("its first message is no hello"));
        };
        let agreed = self.peers.hello.meet(&theirs, &self.link.identity)?;
        let mut state = self.link.state();
        (state.is_up, state.problem, state.prefixes) = (true, None, agreed.prefixes);
        drop(state);
        tracing::info!(
            peer = %self.link.identity, prefixes = agreed.prefixes, policy = theirs.policy,
            "follows a peer"
        );
        Ok((tells, connection))
    }

    async fn connect(&self) -> Result<(Channel, Connection), Broken> {
        let address = &self.link.address;
        let unreachable = |error| Broken::Connect(address.clone(), error);
        let stream = TcpStream::connect(address).await.map_err(unreachable)?;
        stream.set_nodelay(true).map_err(unreachable)?;
        let name = ServerName::try_from(self.link.identity.dns_name());
        let name = name.expect("labels and dots are a DNS name");
        let shaken = self.peers.tls.connector.connect(name, stream).await;
        let stream = shaken.map_err(unreachable)?;
        let shown = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first());
        let shown = tls::identity(shown)?;
        if shown != self.link.identity {
            return Err(Broken::Other(shown));
        }
        let gone = self.peers.config.gone.0;
        let (sender, connection) = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .keep_alive_interval(gone)
            .keep_alive_timeout(gone)
            .handshake(TokioIo::new(stream))
            .await?;
        let task = tokio::spawn(async move {
            // Its error is that of the stream, which tells it.
            let _ = connection.await;
        });
        Ok((Channel(sender), Connection(task)))
    }

    fn told(&mut self, tell: Tell) -> Result<(), Broken> {
        match tell {
            Tell::Echo(stamp) => {
                let rtt = self.shared.driver.clock.now().since(Time::from_nanos(stamp));
                self.rtt = Some(self.rtt.map_or(rtt, |old| old.min(rtt)));
                self.link.heard(self.shared, rtt);
            }
            Tell::News(news) => self.news(news)?,
            Tell::Hello(_) | Tell::Unknown => {}
        }
        Ok(())
    }

    fn news(&mut self, news: News) -> Result<(), Broken> {
        let digest = self.hearing.take(news)?;
        let sent = {
            let mut state = self.link.state();
            // Before the first echo it is not known how far away the peer is.
            if !state.is_joined {
                return Ok(());
            }
            state.heard = Some(Instant::now());
            state.digests += 1;
            state.digests
        };
        let (peer, rtt) = (self.link.id, self.rtt.take());
        self.shared.driver.tell(Input::Digested { peer, sent, rtt, digest });
        Ok(())
    }
}

/// A connection's task, which ends with its stream.
struct Connection(tokio::task::JoinHandle<()>);

impl Drop for Connection {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The connection as tonic sends on it.
struct Channel(http2::SendRequest<Body>);

type Answer = Result<http::Response<Incoming>, hyper::Error>;

impl GrpcService<Body> for Channel {
    type ResponseBody = Incoming;
    type Error = hyper::Error;
    type Future = Pin<Box<dyn Future<Output = Answer> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), hyper::Error>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        Box::pin(self.0.send_request(request))
    }
}
