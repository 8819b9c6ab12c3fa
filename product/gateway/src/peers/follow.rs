//! The side of a stream that is followed: a peer opened it and receives this region's state.
//!
//! Heartbeats are returned at once, before any other waiting message. News is made from the newest
//! digest when there is capacity to send it, so a slow peer gets fewer updates, not later ones.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use meridian_protocol::peer::{
    Agreement, Ask, Hello, Identity, MOST_MODELS, SIBLINGS_SINCE, SiblingBatch, Tell, Telling,
};
use meridian_routing::Input;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tonic::server::StreamingService;
use tonic::{Request, Response, Status, Streaming};

use super::all::Peers;
use super::dial::PATIENCE;
use super::link::Link;
use super::sibling::{self, gone};
use crate::http::limits::Permit;
use crate::replicas::region::Region;

/// Most messages in transit to a follower; further ones wait.
const QUEUE: usize = 4;

/// A stream from a gateway whose certificate was checked.
pub(super) struct FollowService {
    pub(super) region: Arc<Region>,
    pub(super) peers: Arc<Peers>,
    pub(super) from: Identity,
    /// The permit for the connection's only stream.
    pub(super) permit: Option<Permit>,
}

type Item = Result<Tell, Status>;

impl StreamingService<Ask> for FollowService {
    type Response = Tell;
    type ResponseStream = ReceiverStream<Item>;
    type Future =
        Pin<Box<dyn Future<Output = Result<Response<ReceiverStream<Item>>, Status>> + Send>>;

    fn call(&mut self, request: Request<Streaming<Ask>>) -> Self::Future {
        let (region, peers, from) = (self.region.clone(), self.peers.clone(), self.from.clone());
        let permit = self.permit.take();
        Box::pin(async move {
            let permit = permit.ok_or_else(|| {
                Status::resource_exhausted("the connection already has a stream; use that one")
            })?;
            begin(region, peers, from, request.into_inner(), permit).await
        })
    }
}

/// Exchanges hellos; the stream continues in its own task.
async fn begin(
    region: Arc<Region>,
    peers: Arc<Peers>,
    from: Identity,
    mut asks: Streaming<Ask>,
    permit: Permit,
) -> Result<Response<ReceiverStream<Item>>, Status> {
    let theirs = hello(&mut asks).await?;
    let agreed = peers.hello.meet(&theirs, &from).map_err(|refused| {
        tracing::warn!(peer = %from, error = %refused, "refused a peer");
        Status::failed_precondition(refused.to_string())
    })?;
    let (send, receive) = mpsc::channel(QUEUE);
    let link = peers.links.named(&from);
    if let Some(link) = &link {
        link.lives.notify_waiters();
    }
    let is_sibling = from.region() == peers.tls.identity.region() && agreed.minor >= SIBLINGS_SINCE;
    if is_sibling && link.is_none() {
        peers.sightings.look_again();
    }
    tracing::info!(
        peer = %from, prefixes = agreed.prefixes, sibling = is_sibling, "a peer started following"
    );
    let over = region.over.clone();
    let follower = Follower { region, peers, from, link, send };
    tokio::spawn(async move {
        let telling = async {
            match is_sibling {
                true => follower.tell_sibling(asks, agreed).await,
                false => follower.tell(asks).await,
            }
        };
        tokio::select! {
            ended = telling => {
                let why = ended.err().map(|status| status.message().to_owned());
                tracing::info!(peer = %follower.from, error = why, "a peer stopped following");
            }
            () = over.cancelled() => {}
        }
        drop(permit);
    });
    Ok(Response::new(ReceiverStream::new(receive)))
}

async fn hello(asks: &mut Streaming<Ask>) -> Result<Hello, Status> {
    match timeout(PATIENCE, asks.message()).await {
        Ok(Ok(Some(Ask::Hello(hello)))) => Ok(hello),
        Ok(Ok(_)) => Err(Status::invalid_argument("the first message must be a hello")),
        Ok(Err(status)) => Err(status),
        Err(_) => Err(Status::deadline_exceeded("no hello within 5 s")),
    }
}

struct Follower {
    region: Arc<Region>,
    peers: Arc<Peers>,
    from: Identity,
    /// If this gateway follows it too.
    link: Option<Arc<Link>>,
    send: mpsc::Sender<Item>,
}

impl Follower {
    /// Sends the state until the peer is gone.
    async fn tell(&self, mut asks: Streaming<Ask>) -> Result<(), Status> {
        let Follower { region, peers, .. } = self;
        let mut page = peers.bulletin.follow(&region.driver);
        self.send(Tell::Hello(peers.hello.clone())).await?;
        let (mut telling, mut sent_models) = (Telling::default(), None);
        let mut is_new = true;
        loop {
            tokio::select! {
                biased;
                ask = asks.message() => match ask? {
                    Some(ask) => self.answer(ask).await?,
                    None => return Ok(()),
                },
                room = self.send.reserve(), if is_new => {
                    let room = room.map_err(gone)?;
                    // Sent before any numbers, so the follower forwards no request for a model that
                    // is not served here.
                    let models = region.fleet.version();
                    if sent_models.replace(models) != Some(models) {
                        room.send(Ok(Tell::Models(region.fleet.served(MOST_MODELS))));
                        continue;
                    }
                    let newest = page.borrow_and_update().clone();
                    is_new = false;
                    room.send(Ok(Tell::News(telling.news(&newest))));
                },
                changed = page.changed(), if !is_new => {
                    changed.map_err(|_| Status::unavailable("the gateway is shutting down"))?;
                    is_new = true;
                }
            }
        }
    }

    /// Tells a gateway of the same region of this one's requests until it is gone.
    async fn tell_sibling(
        &self,
        mut asks: Streaming<Ask>,
        agreed: Agreement,
    ) -> Result<(), Status> {
        let Follower { region, peers, .. } = self;
        self.send(Tell::Hello(peers.hello.clone())).await?;
        if !peers.has_siblings() {
            tracing::warn!(
                peer = %self.from,
                "a gateway of this region follows this one, which sends it no records: list it in peers.gateways here, too"
            );
        }
        let queue = peers.outbox.siblings.add();
        let answering = async {
            while let Some(ask) = asks.message().await? {
                // It has a replica now that it may not have had when records about requests there came.
                if matches!(ask, Ask::Holdings(_)) {
                    queue.restart();
                }
                self.answer(ask).await?;
            }
            Ok(())
        };
        // It may be found later than it found this gateway.
        let count = |batch: &SiblingBatch| {
            if let Some(link) = peers.links.named(&self.from) {
                link.traffic.told(batch);
            }
        };
        let hashes = || agreed.prefixes && peers.handover.compares();
        tokio::select! {
            ended = answering => ended,
            ended = sibling::tell(region, &peers.rates, count, &queue, &self.send, hashes),
                if peers.has_siblings() => ended.map(|never| match never {}),
        }
    }

    async fn answer(&self, ask: Ask) -> Result<(), Status> {
        let Follower { region, peers, .. } = self;
        match ask {
            Ask::Heartbeat(stamp) => self.send(Tell::Echo(stamp)).await?,
            Ask::Steal(count) => {
                if let Some(link) = self.link.as_ref().filter(|link| !link.sibling) {
                    region.driver.tell(Input::StealAsked { by: link.id, count });
                }
            }
            Ask::Holdings(_) if !peers.handover.compares() => {}
            Ask::Holdings(replica) => {
                let here = region.fleet.at(&replica);
                let here = here.map(|member| region.driver.holdings(member.id));
                for tell in peers.handover.tell(&replica, here) {
                    self.send(tell).await?;
                }
            }
            Ask::Hello(_) | Ask::Unknown => {}
        }
        Ok(())
    }

    async fn send(&self, tell: Tell) -> Result<(), Status> {
        self.send.send(Ok(tell)).await.map_err(gone)
    }
}
