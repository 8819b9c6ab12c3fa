//! The side of a stream that is followed: a peer opened it and receives this region's state.
//!
//! Heartbeats are returned at once, before any other waiting message. News is made from the newest
//! digest when there is capacity to send it, so a slow peer gets fewer updates, not later ones.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use meridian_base::PeerId;
use meridian_protocol::peer::{Ask, Hello, Identity, MOST_MODELS, Tell, Telling};
use meridian_routing::Input;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tonic::server::StreamingService;
use tonic::{Request, Response, Status, Streaming};

use super::all::Peers;
use super::dial::PATIENCE;
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
    let link = peers.links.iter().find(|link| link.identity == from);
    if let Some(link) = link {
        link.lives.notify_waiters();
    }
    let follower = Follower { telling: Telling::default(), id: link.map(|link| link.id), send };
    tracing::info!(peer = %from, prefixes = agreed.prefixes, "a peer started following");
    let over = region.over.clone();
    tokio::spawn(async move {
        tokio::select! {
            ended = follower.tell(&region, &peers, asks) => {
                let why = ended.err().map(|status| status.message().to_owned());
                tracing::info!(peer = %from, error = why, "a peer stopped following");
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

/// The connection closed the other half of the stream.
fn gone<T>(_: T) -> Status {
    Status::cancelled("the connection is gone")
}

struct Follower {
    telling: Telling,
    /// Its row, if this gateway follows it too.
    id: Option<PeerId>,
    send: mpsc::Sender<Item>,
}

impl Follower {
    /// Sends the state until the peer is gone.
    async fn tell(
        mut self,
        region: &Region,
        peers: &Peers,
        mut asks: Streaming<Ask>,
    ) -> Result<(), Status> {
        let mut page = peers.bulletin.follow(&region.driver);
        self.send.send(Ok(Tell::Hello(peers.hello.clone()))).await.map_err(gone)?;
        let mut sent_models = None;
        let mut is_new = true;
        loop {
            tokio::select! {
                biased;
                ask = asks.message() => match ask? {
                    Some(Ask::Heartbeat(stamp)) => {
                        self.send.send(Ok(Tell::Echo(stamp))).await.map_err(gone)?;
                    }
                    Some(Ask::Steal(count)) => {
                        if let Some(by) = self.id {
                            region.driver.tell(Input::StealAsked { by, count });
                        }
                    }
                    Some(Ask::Holdings(_)) if !peers.handover.compares() => {}
                    Some(Ask::Holdings(replica)) => {
                        let here = region.fleet.at(&replica);
                        let here = here.map(|member| region.driver.holdings(member.id));
                        for tell in peers.handover.tell(&replica, here) {
                            self.send.send(Ok(tell)).await.map_err(gone)?;
                        }
                    }
                    Some(Ask::Hello(_) | Ask::Unknown) => {}
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
                    let news = self.telling.news(&newest);
                    room.send(Ok(Tell::News(news)));
                },
                changed = page.changed(), if !is_new => {
                    changed.map_err(|_| Status::unavailable("the gateway is shutting down"))?;
                    is_new = true;
                }
            }
        }
    }
}
