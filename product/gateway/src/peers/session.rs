//! Keeps the stream with a peer's news open.
//!
//! A lost stream is reopened after a pause, which doubles until a digest of the peer was received:
//! a peer that answers without usable news is no better than one that does not answer. Heartbeats
//! measure the round trip while the stream is open. The shortest since the last digest is passed to
//! the machine with the next one.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use http::uri::{Authority, PathAndQuery};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use meridian_base::residency::Place;
use meridian_base::{Rng, Time};
use meridian_protocol::peer::{
    Agreement, Ask, FOLLOW, Hearing, MOST_MESSAGE, News, PLACES_SINCE, PeerError, RULES_SINCE,
    SIBLINGS_SINCE, Tell,
};
use meridian_routing::{Holdings, Input};
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout};
use tokio_stream::wrappers::ReceiverStream;
use tonic::client::Grpc;
use tonic::{Code, Request, Status, Streaming};

use super::all::Peers;
use super::channel::{Channel, Connection};
use super::codec::Messages;
use super::dial::{DialError, Dialled, PATIENCE, PAUSES, dial};
use super::error_chain::{error_chain, with_causes};
use super::link::Link;
use super::reported::Reported;
use super::sibling::{self, Known};
use super::welcome::Welcome;
use crate::cause;
use crate::inputs::residency::Residency;
use crate::rarely::Rarely;
use crate::replicas::region::Region;

/// The remedy if two gateways do not share prefixes.
const REMEDY: &str = "set the same `secret` in the files of all gateways, and restart those \
                      whose files changed";

/// Why a stream ended.
#[derive(Debug, thiserror::Error)]
enum Broken {
    #[error(transparent)]
    Dial(#[from] DialError),
    #[error("{0}")]
    Http(#[from] hyper::Error),
    #[error("{0}")]
    Refused(#[from] meridian_protocol::peer::Refused),
    #[error("the peer sent an invalid message: {0}")]
    News(#[from] PeerError),
    #[error("{message}")]
    Status { message: String, cause: &'static str },
    #[error("it closed the stream")]
    Closed,
    #[error("its first message is not a hello")]
    NoHello,
    #[error("{0}")]
    Silent(&'static str),
    #[error("its certificate is revoked")]
    Revoked,
}

impl From<Status> for Broken {
    /// Keeps the message and its causes. The status as an error repeats the message in its own
    /// format, so it is not a source.
    fn from(status: Status) -> Broken {
        let source = std::error::Error::source(&status);
        let cause = source.and_then(cause::of).unwrap_or(match status.code() {
            Code::PermissionDenied | Code::FailedPrecondition => cause::REJECTED,
            Code::Unavailable if source.is_none() => cause::CLOSED,
            Code::InvalidArgument | Code::Internal if source.is_none() => cause::BAD_ANSWER,
            _ => cause::RESET,
        });
        Broken::Status { message: with_causes(status.message().to_owned(), source), cause }
    }
}

impl Broken {
    /// The cause of the interval that begins with it.
    fn cause(&self) -> &'static str {
        match self {
            Broken::Dial(error) => error.cause(),
            Broken::Http(error) => cause::of(error).unwrap_or(cause::BAD_ANSWER),
            Broken::Refused(_) => cause::REJECTED,
            Broken::News(_) | Broken::NoHello => cause::BAD_ANSWER,
            Broken::Status { cause, .. } => cause,
            Broken::Closed => cause::CLOSED,
            Broken::Silent(_) => cause::TIMEOUT,
            Broken::Revoked => cause::CERTIFICATE,
        }
    }
}

/// Keeps the stream open; never returns.
pub(super) async fn keep(
    region: Arc<Region>,
    residency: Arc<Residency>,
    peers: Arc<Peers>,
    link: Arc<Link>,
) {
    let mut rng = Rng::new(link.name_hash ^ region.seed);
    let (first, most) = PAUSES;
    let mut pause = first;
    let log = Rarely::default();
    loop {
        let mut session = Session::new(&region, &residency, &peers, &link);
        let broken = session.run().await;
        pause = if session.took { first } else { (pause * 2).min(most) };
        if link.sibling {
            region.driver.tell(Input::SiblingLost(link.sibling_id()));
        }
        let problem = error_chain(&broken);
        if let Some(unlogged) = log.due(&cause::undated(&problem)) {
            tracing::warn!(
                peer = %link.identity, error = problem, unlogged, "a peer is not connected"
            );
        }
        link.state().fail(problem, broken.cause(), region.driver.clock.date_ms());
        peers.note_siblings();
        link.rest(pause, &mut rng).await;
    }
}

/// One stream, from dialling to its end.
struct Session<'a> {
    region: &'a Region,
    peers: &'a Peers,
    link: &'a Link,
    hearing: Hearing,
    places: Reported<'a>,
    /// The shortest round trip since the last digest.
    rtt: Option<Duration>,
    /// Replicas about which the peer has not been asked yet.
    unasked: VecDeque<Authority>,
    /// Whether one of its digests was received.
    took: bool,
    /// Whether its hashes of names are comparable.
    same_secret: bool,
    /// If it is a sibling, what it has told.
    welcome: Option<Welcome>,
}

impl<'a> Session<'a> {
    fn new(
        region: &'a Region,
        residency: &'a Residency,
        peers: &'a Peers,
        link: &'a Link,
    ) -> Session<'a> {
        let (hearing, unasked) = (Hearing::default(), VecDeque::new());
        let places = Reported::new(residency, &link.identity);
        let (rtt, took, same_secret, welcome) = (None, false, false, None);
        Session { region, peers, link, hearing, places, rtt, unasked, took, same_secret, welcome }
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
        let (mut tells, mut connection, agreed) =
            opening.map_err(|_| Broken::Silent("no answer within 5 s"))??;
        self.hearing = Hearing::at(assumed(&agreed, self.link.region()));
        self.places = Reported::new(self.places.residency, &self.link.identity);
        self.same_secret = agreed.same_secret;
        self.ask_all(&agreed);
        let beat = self.peers.config.beat.0;
        let mut beats = interval(beat);
        beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let gone = self.peers.config.gone.0;
        let mut silent = std::pin::pin!(sleep(gone));
        loop {
            let ask = tokio::select! {
                tell = tells.message() => {
                    let tell = tell?.ok_or(Broken::Closed)?;
                    self.receive(tell)?;
                    silent.as_mut().reset(Instant::now() + gone);
                    continue;
                }
                _ = beats.tick() => self.heartbeat(),
                count = self.peers.outbox.to_steal(self.link.id) => Ask::Steal(count),
                replicas = self.peers.handover.to_ask(self.link.id) => {
                    self.unasked.extend(replicas);
                    continue;
                }
                room = asks.reserve(), if !self.unasked.is_empty() => {
                    if let (Ok(room), Some(replica)) = (room, self.unasked.pop_front()) {
                        room.send(Ask::Holdings(replica.to_string()));
                    }
                    if self.unasked.is_empty() {
                        beats.reset_immediately();
                    }
                    continue;
                }
                () = &mut silent => return Err(Broken::Silent("it is silent")),
                () = &mut connection.revoked => return Err(Broken::Revoked),
            };
            // A full queue already contains heartbeats: the peer is slow, or gone.
            let _ = asks.try_send(ask);
        }
    }

    /// A sibling has the same replicas, and may have learned of them while it was not connected.
    fn ask_all(&mut self, agreed: &Agreement) {
        if self.link.sibling {
            self.welcome = Some(Welcome::new(agreed.minor >= SIBLINGS_SINCE));
            self.peers.handover.asks_all(self.link.id);
            let all = self.region.fleet.all();
            self.unasked.extend(all.iter().map(|member| member.authority.clone()));
        }
    }

    fn heartbeat(&mut self) -> Ask {
        let stamp = self.region.driver.clock.now().as_nanos();
        if let Some(welcome) = &mut self.welcome {
            // Without a replica there was nothing to ask about yet.
            let asked = self.unasked.is_empty() && !self.region.fleet.all().is_empty();
            welcome.beats(stamp, asked);
        }
        Ask::Heartbeat(stamp)
    }

    /// Notes what the sibling told. With everything, this gateway is ready.
    fn welcomed(&mut self, told: impl FnOnce(&mut Welcome)) {
        let Some(welcome) = &mut self.welcome else { return };
        told(welcome);
        if welcome.is_complete() && self.region.joining.end() {
            tracing::info!(peer = %self.link.identity, "a gateway of this region told what it knows");
        }
    }

    /// Connects, and exchanges hellos.
    async fn open(
        &self,
        asks: &mpsc::Sender<Ask>,
        queue: mpsc::Receiver<Ask>,
    ) -> Result<(Streaming<Tell>, Connection, Agreement), Broken> {
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
            return Err(Broken::NoHello);
        };
        let agreed = self.peers.hello.meet(&theirs, &self.link.identity)?;
        let (us, them) = (&self.peers.hello.identity, &self.link.identity);
        let problem = if self.link.sibling && agreed.minor < SIBLINGS_SINCE {
            Some(format!("{them} tells nothing of its requests: it is older; upgrade it"))
        } else if self.peers.hello.has_other_secret(&theirs) {
            Some(format!("{us} and {them} share no prefixes: their secrets differ; {REMEDY}"))
        } else {
            None
        };
        {
            let mut state = self.link.state();
            state.connect(
                self.link.sibling || self.link.line.is_open(),
                self.region.driver.clock.date_ms(),
            );
            state.prefixes = agreed.prefixes;
            state.problem.clone_from(&problem);
        }
        self.peers.note_siblings();
        if let Some(problem) = problem
            && let Some(unlogged) = self.link.apart.due("")
        {
            tracing::warn!(peer = %self.link.identity, unlogged, "{problem}");
        }
        tracing::info!(
            peer = %self.link.identity, prefixes = agreed.prefixes, policy = theirs.policy,
            sibling = self.link.sibling, "follows a peer"
        );
        Ok((tells, connection, agreed))
    }

    async fn connect(&self) -> Result<(Channel, Connection), Broken> {
        let Dialled { stream, certificate } =
            dial(&self.peers.tls, &self.link.identity, &self.link.address).await?;
        let revoked = self.peers.tls.revoked(certificate);
        let gone = self.peers.config.gone.0;
        let (sender, connection) = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .keep_alive_interval(gone)
            .keep_alive_timeout(gone)
            .handshake(TokioIo::new(stream))
            .await?;
        let task = tokio::spawn(async move {
            // The stream reports the same error.
            let _ = connection.await;
        });
        Ok((Channel(sender), Connection { task, revoked: Box::pin(revoked) }))
    }

    fn receive(&mut self, tell: Tell) -> Result<(), Broken> {
        match tell {
            Tell::Echo(stamp) => {
                let rtt = self.region.driver.clock.now().since(Time::from_nanos(stamp));
                self.rtt = Some(self.rtt.map_or(rtt, |old| old.min(rtt)));
                self.link.heard(&self.region.driver, rtt);
                self.welcomed(|welcome| welcome.echoes(stamp));
            }
            Tell::Siblings(batch) if self.link.sibling => {
                self.took = true;
                sibling::charge(&self.peers.rates, &batch);
                let known = Known { names: self.same_secret, prefixes: self.shares_hashes() };
                let from = self.link.sibling_id();
                sibling::hear(self.region, from, &self.link.traffic, batch, known);
                self.welcomed(Welcome::hears_requests);
            }
            // An older sibling takes this gateway for a peer of another region.
            Tell::News(_) | Tell::Models(_) if self.link.sibling => self.took = true,
            Tell::News(news) => self.news(news)?,
            Tell::Models(names) => {
                self.peers.models.tell(self.link.id, names, &self.region.fleet);
            }
            Tell::Holdings(replica, holdings) => {
                if self.shares_hashes() {
                    self.inherit(&replica, holdings);
                }
            }
            Tell::Siblings(_) | Tell::Hello(_) | Tell::Unknown => {}
        }
        Ok(())
    }

    /// Whether the peer's hashes of prompts mean something here.
    fn shares_hashes(&self) -> bool {
        self.peers.handover.compares() && self.link.state().prefixes
    }

    /// Takes over a peer's knowledge about one of this gateway's replicas.
    fn inherit(&self, replica: &str, holdings: Holdings) {
        let Some(member) = self.region.fleet.at(replica) else { return };
        tracing::debug!(
            replica = %member.name, peer = %self.link.identity, blocks = holdings.blocks(),
            ms_per_token = holdings.ms_per_token, "a peer reported the blocks of a replica"
        );
        let there = || !member.gone.is_cancelled();
        self.region.driver.tell_if(there, Input::Inherited { id: member.id, holdings });
    }

    fn news(&mut self, mut news: News) -> Result<(), Broken> {
        self.places.check(&mut news);
        let digest = self.hearing.take(news)?;
        self.took = true;
        let sent = {
            let mut state = self.link.state();
            // Before the first echo, the distance to the peer is unknown.
            if !state.is_joined {
                return Ok(());
            }
            let now = Instant::now();
            (state.heard, state.digested) = (Some(now), Some(now));
            state.digests += 1;
            if state.places != digest.places {
                state.places.clone_from(&digest.places);
            }
            state.digests
        };
        let (peer, rtt) = (self.link.id, self.rtt.take());
        self.link.pairs.store(digest.pace.is_some(), Ordering::Relaxed);
        self.region.driver.tell(Input::Digested { peer, sent, rtt, digest });
        Ok(())
    }
}

/// The assumed places of a peer's replicas until it reports them, which an older peer never does:
/// in its region. A peer that does not apply the rules of a forwarded request gets no request that
/// a rule names.
fn assumed(agreed: &Agreement, region: &str) -> Vec<Arc<Place>> {
    match agreed.minor {
        RULES_SINCE..PLACES_SINCE => vec![Arc::new(Place::region(region))],
        _ => Vec::new(),
    }
}
