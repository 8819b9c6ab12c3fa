//! Two gateways of one region of which one is older and reports no requests to others, as during an
//! upgrade. The older one is a program of this test.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use http::{Request, Response};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use meridian_protocol::peer::{Ask, FOLLOW, Hello, Identity, SIBLINGS_SINCE, Tell};
use meridian_tls::mutual_server;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::time::sleep;
use tokio_rustls::TlsAcceptor;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;

use crate::admin::Lines;
use crate::common::{Fleet, Region, Replica, call, chat, get, peers};
use crate::siblings::{gateway, lists};

type Sent = mpsc::Sender<Bytes>;
type Body = StreamBody<
    std::pin::Pin<Box<dyn tokio_stream::Stream<Item = Result<Frame<Bytes>, Infallible>> + Send>>,
>;

/// A body with the messages that are sent.
fn body() -> (Sent, Body) {
    let (send, receive) = mpsc::channel(16);
    let frames = ReceiverStream::new(receive).map(|bytes| Ok(Frame::data(bytes)));
    (send, StreamBody::new(Box::pin(frames)))
}

/// A message in gRPC's frame.
fn framed(encode: impl FnOnce(&mut Vec<u8>)) -> Bytes {
    let mut message = Vec::new();
    encode(&mut message);
    let length = u32::try_from(message.len()).unwrap().to_be_bytes();
    [&[0][..], &length, &message].concat().into()
}

/// The messages of a body.
struct Messages {
    body: Incoming,
    buffer: BytesMut,
    whole: VecDeque<Bytes>,
}

impl Messages {
    fn of(body: Incoming) -> Messages {
        Messages { body, buffer: BytesMut::new(), whole: VecDeque::new() }
    }

    async fn next(&mut self) -> Option<Bytes> {
        while self.whole.is_empty() {
            let frame = self.body.frame().await?.ok()?;
            self.buffer.extend_from_slice(&frame.into_data().unwrap_or_default());
            while self.buffer.len() >= 5 {
                let length = u32::from_be_bytes(self.buffer[1..5].try_into().unwrap()) as usize;
                if self.buffer.len() < 5 + length {
                    break;
                }
                self.buffer.advance(5);
                self.whole.push_back(self.buffer.split_to(length).freeze());
            }
        }
        self.whole.pop_front()
    }
}

/// The hello of the older `us-2`.
fn hello() -> Hello {
    let identity = Identity::new("prod", "us", "us-2").unwrap();
    Hello { minor: SIBLINGS_SINCE - 1, ..Hello::new(identity, 1, 64, "meridian") }
}

/// The gateway `us-1`, which lists `us-2`.
async fn first(fleet: &Fleet, replica: &Replica) -> Region {
    let mut config = gateway(fleet, 1, &[replica]);
    lists(&mut config, 2, fleet.address(2));
    let first = Region::start(config).await;
    let is_up = |r: &meridian_protocol::admin::Replica| r.state == "up" && !r.models.is_empty();
    first.until("its replica is up", |s| is_up(&s.replicas[0])).await;
    first
}

// An older gateway that follows gets what it knows, models and digests, and no records.
#[tokio::test(start_paused = true)]
async fn an_older_one_follows() {
    let fleet = Fleet::new("prod");
    let replica = Replica::start().await;
    let first = first(&fleet, &replica).await;
    let files = peers(&mut gateway(&fleet, 2, &[])).clone();
    let stream = crate::peers::tls(&fleet, &files, true).await;
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .unwrap();
    tokio::spawn(connection);
    let (asks, body) = body();
    asks.send(framed(|to| Ask::Hello(hello()).encode(to))).await.unwrap();
    let request = Request::post(format!("https://us-1.us.prod{FOLLOW}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(body)
        .unwrap();
    let mut tells = Messages::of(sender.send_request(request).await.unwrap().into_body());
    let mut tell = async || Tell::decode(tells.next().await.unwrap()).unwrap();
    assert!(matches!(tell().await, Tell::Hello(_)));
    while !matches!(tell().await, Tell::News(_)) {}
    assert_eq!(call(first.listen, chat("hi")).await.status, 200);
    asks.send(framed(|to| Ask::Heartbeat(7).encode(to))).await.unwrap();
    loop {
        match tell().await {
            Tell::Echo(stamp) => break assert_eq!(stamp, 7),
            Tell::News(_) | Tell::Models(_) => {}
            other => panic!("{other:?}"),
        }
    }
}

/// Answers one stream as the older gateway: with its hello, models, and the echoes of heartbeats.
async fn answer(request: Request<Incoming>) -> Result<Response<Body>, Infallible> {
    assert_eq!(request.uri().path(), FOLLOW);
    let (tells, body) = body();
    tokio::spawn(async move {
        let mut asks = Messages::of(request.into_body());
        while let Some(ask) = asks.next().await {
            let tell = match Ask::decode(ask).unwrap() {
                Ask::Hello(_) => {
                    tells.send(framed(|to| Tell::Hello(hello()).encode(to))).await.unwrap();
                    Tell::Models(vec!["m".to_owned()])
                }
                Ask::Heartbeat(stamp) => Tell::Echo(stamp),
                _ => continue,
            };
            let _ = tells.send(framed(|to| tell.encode(to))).await;
        }
    });
    let response = Response::builder().header("content-type", "application/grpc");
    Ok(response.body(body).unwrap())
}

/// Serves the older gateway; counts its connections.
async fn older(fleet: &Fleet) -> Arc<AtomicUsize> {
    peers(&mut gateway(fleet, 2, &[]));
    let files = fleet.files("us-2");
    let tls = mutual_server(&files, files.read().unwrap(), &[b"h2"]).unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(tls));
    let listener = TcpListener::bind(fleet.address(2)).await.unwrap();
    let count = Arc::new(AtomicUsize::new(0));
    let accepted = count.clone();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            accepted.fetch_add(1, Ordering::Relaxed);
            let stream = acceptor.accept(stream).await.unwrap();
            let http = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
            tokio::spawn(http.serve_connection(TokioIo::new(stream), service_fn(answer)));
        }
    });
    count
}

// A gateway that follows an older one stays connected, says once which one to upgrade, is ready, and
// serves as without it.
#[tokio::test(start_paused = true)]
async fn an_older_one_is_followed() {
    let _second = tracing::Dispatch::new(tracing::subscriber::NoSubscriber::default());
    let lines = Lines::default();
    let writer = lines.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter("meridian_gateway::peers=warn")
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let fleet = Fleet::new("prod");
    let replica = Replica::start().await;
    let connections = older(&fleet).await;
    let first = first(&fleet, &replica).await;
    let status = first.until("it is connected", |s| s.peers[0].state == "up").await;
    let problem = status.peers[0].problem.clone().unwrap_or_default();
    assert!(problem.contains("us/us-2 tells nothing of its requests"), "{problem}");
    sleep(Duration::from_secs(300)).await;
    assert_eq!(get(first.listen, "/ready").await.status, 200);
    assert_eq!(call(first.listen, chat("hi")).await.status, 200);
    let status = first.settled().await;
    let sibling = status.peers[0].sibling.unwrap();
    assert_eq!((sibling.heard, status.peers[0].state.as_str()), (0, "up"));
    assert_eq!(connections.load(Ordering::Relaxed), 1, "the stream stays");
    let text = lines.text();
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(text.contains("it is older; upgrade it"), "{text}");
}
