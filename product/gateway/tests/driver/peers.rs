//! Gateways that follow each other: digests, untrusted clients, losses.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame};
use http_body_util::BodyExt;
use hyper_util::rt::{TokioExecutor, TokioIo};
use meridian_config::{Gateway as Config, Peers};
use meridian_gateway::serve;
use meridian_protocol::admin::Status;
use meridian_protocol::peer::{Ask, FOLLOW, Hello, Tell};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::common::{Fleet, Region, Replica, call, chat, follow, peers};

/// Two gateways that will follow each other: `us` with a replica, `eu` without.
fn two(fleet: &Fleet, replica: &Replica) -> (Config, Config) {
    let mut us = fleet.gateway("us", 1, &[replica]);
    let mut eu = fleet.gateway("eu", 2, &[]);
    follow(&mut us, "eu", fleet.address(2));
    follow(&mut eu, "us", fleet.address(1));
    // A policy with a prefix index.
    let meridian = Config::read("version: 1\npolicy: meridian\n").unwrap().policy;
    (us.policy, eu.policy) = (meridian.clone(), meridian);
    (us, eu)
}

fn is_up(status: &Status) -> bool {
    status.peers[0].state == "up" && status.peers[0].digests > 0
}

fn problem(status: &Status) -> &str {
    status.peers[0].problem.as_deref().unwrap_or_default()
}

// Each sees the other's replicas, including those that join and leave later. A request goes to the
// only replica, whichever region it enters.
#[tokio::test(start_paused = true)]
async fn gateways_see_each_other() {
    let fleet = Fleet::new("prod");
    let replica = Replica::start().await;
    let (us, eu) = two(&fleet, &replica);
    let us = Region::start(us).await;
    let eu = Region::start(eu).await;
    let sees = |eligible: u32| move |s: &Status| is_up(s) && s.peers[0].eligible == eligible;
    let status = eu.until("eu sees the replica of us", sees(1)).await;
    let peer = &status.peers[0];
    assert_eq!((peer.name.as_str(), peer.region.as_str(), peer.usable), ("us-1", "us", 1));
    assert!(peer.prefixes, "both have one secret and the same blocks");
    us.until("us sees that eu has none", sees(0)).await;

    us.until("the replica is up", |s| s.replicas[0].state == "up").await;
    assert_eq!(call(us.listen, chat("hi")).await.status, 200);
    assert_eq!(call(eu.listen, chat("hi")).await.status, 200);
    assert_eq!(replica.count(), 2);

    us.admin("DELETE", "/admin/replicas/r0", "").await;
    eu.until("eu sees that it is gone", sees(0)).await;
}

// News arrives even without changes: an old digest would be ignored.
#[tokio::test(start_paused = true)]
async fn news_come_all_the_time() {
    let fleet = Fleet::new("prod");
    let replica = Replica::start().await;
    let (us, eu) = two(&fleet, &replica);
    let (_us, eu) = (Region::start(us).await, Region::start(eu).await);
    let before = eu.until("eu follows us", is_up).await.peers[0].digests;
    tokio::time::sleep(Duration::from_secs(10)).await;
    let count = eu.status().await.peers[0].digests - before;
    assert!((90..=510).contains(&count), "{count} digests in 10 s: 10 to 50 a second are due");
}

// Without a common secret, gateways share load but not prefixes.
#[tokio::test(start_paused = true)]
async fn other_secrets_share_no_prefixes() {
    let fleet = Fleet::new("prod");
    let replica = Replica::start().await;
    let (mut us, eu) = two(&fleet, &replica);
    us.secret = Some("another".into());
    let (_us, eu) = (Region::start(us).await, Region::start(eu).await);
    let status = eu.until("eu follows us", |s| is_up(s) && s.peers[0].eligible == 1).await;
    assert!(!status.peers[0].prefixes);
    let problem = status.peers[0].problem.as_deref().unwrap_or_default();
    for part in ["eu/eu-1 and us/us-1 share no prefixes", "the same `secret`"] {
        assert!(problem.contains(part), "{part} is missing in {problem}");
    }
}

/// The match that `eu` expects when it takes over both replicas of `us`, one of which has read the
/// prompt, and whether it sends the prompt there.
async fn handed_over(secret: Option<&str>, left_first: bool) -> (String, bool) {
    let fleet = Fleet::new("prod");
    let both = [Replica::start().await, Replica::start().await];
    let (mut us, eu) = two(&fleet, &both[0]);
    us.secret = secret.map(Into::into).or(us.secret);
    let (us, eu) = (Region::start(us).await, Region::start(eu).await);
    let add = |at: usize| format!(r#"{{"url": "{}"}}"#, both[at].url());
    us.admin("POST", "/admin/replicas", &add(1)).await;
    let up = |s: &Status| s.replicas.len() == 2 && s.replicas.iter().all(|r| r.state == "up");
    us.until("both are up", up).await;
    eu.until("eu follows us", is_up).await;
    let prompt = "a long way to go ".repeat(100);
    assert_eq!(call(us.listen, chat(&prompt)).await.status, 200);
    let read = both.iter().position(|replica| replica.count() == 1).unwrap();
    if left_first {
        us.admin("DELETE", "/admin/replicas/r0", "").await;
        us.admin("DELETE", "/admin/replicas/r1", "").await;
        us.until("it has none", |s| s.replicas.is_empty()).await;
    }
    // The replica without the prompt first: by default it would get the prompt.
    eu.admin("POST", "/admin/replicas", &add(1 - read)).await;
    eu.admin("POST", "/admin/replicas", &add(read)).await;
    eu.until("eu has them", up).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let answer = call(eu.listen, chat(&prompt)).await;
    (answer.header("x-meridian-prefix-match").to_owned(), both[read].count() == 2)
}

// A gateway that takes over replicas learns their cache contents from a gateway that has them, or
// had them within the last minute: a prompt goes to the replica that has read it. If hashes are not
// comparable, it learns nothing.
#[tokio::test(start_paused = true)]
async fn replicas_are_handed_over() {
    for left_first in [false, true] {
        let (matched, there) = handed_over(None, left_first).await;
        assert!(there && matched != "0.00", "{matched}, let go first: {left_first}");
        let (matched, _) = handed_over(Some("another"), left_first).await;
        assert_eq!(matched, "0.00");
    }
}

// A peer that goes down is lost, then gone. When it is back, it is followed again at once, even
// though the pause between two attempts has grown to seconds: it dials this gateway itself.
#[tokio::test(start_paused = true)]
async fn a_restart_is_followed() {
    let fleet = Fleet::new("prod");
    let replica = Replica::start().await;
    let (us, eu) = two(&fleet, &replica);
    let mut first = Region::start(us.clone()).await;
    let eu = Region::start(eu).await;
    let sees = |s: &Status| is_up(s) && s.peers[0].eligible == 1;
    let before = eu.until("eu follows us", sees).await;
    first.shut_down();
    first.served.await.unwrap().unwrap();
    let status = eu.until("us is gone", |s| s.peers[0].state == "gone").await;
    assert_eq!(status.peers[0].eligible, 0, "nothing is known of it any more");
    assert!(problem(&status).contains("cannot be reached"), "{}", problem(&status));
    tokio::time::sleep(Duration::from_secs(60)).await;
    let back = tokio::time::Instant::now();
    let _second = Region::start(us).await;
    let status = eu.until("eu follows us again", sees).await;
    assert!(back.elapsed() < Duration::from_secs(1), "{:?}", back.elapsed());
    assert!(status.peers[0].digests > before.peers[0].digests);
    assert_eq!(status.peers[0].problem, None);
}

// A gateway of another fleet, whose CA is not trusted, is refused whichever side dials.
#[tokio::test(start_paused = true)]
async fn strangers_are_refused() {
    let (ours, theirs) = (Fleet::new("prod"), Fleet::new("prod"));
    let replica = Replica::start().await;
    let mut us = ours.gateway("us", 1, &[&replica]);
    let mut eu = theirs.gateway("eu", 2, &[]);
    follow(&mut us, "eu", theirs.address(2));
    follow(&mut eu, "us", ours.address(1));
    let (us, eu) = (Region::start(us).await, Region::start(eu).await);
    for region in [us, eu] {
        let refused = |s: &Status| problem(s).contains("certificate");
        let status = region.until("it is refused", refused).await;
        assert_eq!((status.peers[0].state.as_str(), status.peers[0].digests), ("gone", 0));
    }
}

// A client without a certificate learns nothing, with TLS or without.
#[tokio::test(start_paused = true)]
async fn nobody_is_refused() {
    let fleet = Fleet::new("prod");
    let _us = Region::start(fleet.gateway("us", 1, &[])).await;
    let mut plain = TcpStream::connect(fleet.address(1)).await.unwrap();
    plain.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    let _ = plain.read_to_end(&mut answer).await;
    assert!(answer.len() < 16, "an alert of TLS and nothing else: {answer:?}");

    let files = peers(&mut fleet.gateway("eu", 2, &[])).clone();
    let mut stream = tls(&fleet, &files, false).await;
    let _ = stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await;
    let error = stream.read_to_end(&mut Vec::new()).await.unwrap_err().to_string();
    assert!(error.to_lowercase().contains("certificate"), "{error}");
}

// A gateway that answers at another one's address is not taken for it.
#[tokio::test(start_paused = true)]
async fn another_gateway_is_not_taken_for_a_peer() {
    let fleet = Fleet::new("prod");
    let mut us = fleet.gateway("us", 1, &[]);
    follow(&mut us, "eu", fleet.address(2));
    let _asia = Region::start(fleet.gateway("asia", 2, &[])).await;
    let us = Region::start(us).await;
    us.until("asia is refused", |s| problem(s).contains("not valid for name")).await;
}

// A certificate that is missing or of another region prevents a start, and the error names the
// field and the remedy.
#[tokio::test(start_paused = true)]
async fn bad_files_are_reported() {
    let fleet = Fleet::new("prod");
    let start = async |config: Config| {
        let served = serve(config, 0, |_| {}, std::future::pending()).await;
        served.expect_err("cannot start").to_string()
    };
    let mut moved = fleet.gateway("us", 1, &[]);
    moved.region = "eu".to_owned();
    let error = start(moved).await;
    assert!(error.starts_with("peers.certificate: is for region `us`"), "{error}");
    let mut missing = fleet.gateway("us", 1, &[]);
    peers(&mut missing).ca = "none.crt".into();
    let error = start(missing).await;
    assert!(error.starts_with("peers.ca: none.crt: "), "{error}");
    let mut mixed = fleet.gateway("us", 1, &[]);
    peers(&mut mixed).key = peers(&mut fleet.gateway("eu", 2, &[])).key.clone();
    let error = start(mixed).await;
    assert!(error.starts_with("peers.key: "), "{error}");
    let mut itself = fleet.gateway("us", 1, &[]);
    follow(&mut itself, "us", fleet.address(1));
    let error = start(itself).await;
    assert!(error.contains("is this gateway itself"), "{error}");
}

// A peer of another major version is refused, and the error says which side to update.
#[tokio::test(start_paused = true)]
async fn another_version_is_told_whom_to_update() {
    let fleet = Fleet::new("prod");
    let _us = Region::start(fleet.gateway("us", 1, &[])).await;
    let hello = Hello::new(fleet.identity("eu"), 1, 64, "meridian");
    let newer = Hello { major: hello.major + 1, ..hello.clone() };
    let answer = ask(&fleet, &Ask::Hello(newer)).await;
    assert_eq!(answer.status, "9", "a failed precondition");
    assert!(answer.message.ends_with("update us/us-1"), "{}", answer.message);
    // A gateway whose hello differs from its certificate, and one that sends no hello.
    let other = Hello { identity: fleet.identity("asia"), ..hello.clone() };
    let answer = ask(&fleet, &Ask::Hello(other)).await;
    assert!(answer.message.contains("hello to asia/asia-1"), "{}", answer.message);
    let answer = ask(&fleet, &Ask::Heartbeat(1)).await;
    assert!(answer.message.contains("must be a hello"), "{}", answer.message);
    let answer = ask(&fleet, &Ask::Hello(hello)).await;
    assert_eq!(answer.status, "", "the stream continues");
    assert!(matches!(answer.first, Some(Tell::Hello(_))), "{:?}", answer.first);
}

// A peer may only forward requests of one hop: a request that is not marked as forwarded once, in
// this version, is refused, and neither a replica nor the client port sees it.
#[tokio::test(start_paused = true)]
async fn only_forwards_of_one_hop_are_served() {
    let fleet = Fleet::new("prod");
    let replica = Replica::start().await;
    let us = Region::start(fleet.gateway("us", 1, &[&replica])).await;
    us.until("the replica is up", |s| s.replicas[0].state == "up").await;
    let files = peers(&mut fleet.gateway("eu", 2, &[])).clone();
    let stream = tls(&fleet, &files, true).await;
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .unwrap();
    tokio::spawn(connection);
    let mut ask = async |marks: &[(&str, &str)]| {
        let (head, body) = chat("hi").into_parts();
        let mut request = http::Request::from_parts(head, body);
        *request.uri_mut() = "https://us-1.us.prod/v1/chat/completions".parse().unwrap();
        request.headers_mut().remove("host");
        for (name, value) in marks {
            let name: http::HeaderName = name.parse().unwrap();
            request.headers_mut().insert(name, value.parse().unwrap());
        }
        let response = sender.send_request(request).await.unwrap();
        let refused = response.headers().get("x-meridian-refused").cloned();
        let status = response.status().as_u16();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (status, refused.is_some(), String::from_utf8(body.to_vec()).unwrap())
    };
    for (marks, says) in [
        (&[][..], "x-meridian-forward: is missing"),
        (&[("x-meridian-forward", "2"), ("x-meridian-hops", "1")], "version 2 of the peer"),
        (&[("x-meridian-forward", "1"), ("x-meridian-hops", "2")], "x-meridian-hops: is 2"),
        (&[("x-meridian-forward", "1")], "x-meridian-hops: is 0"),
    ] {
        let (status, refused, body) = ask(marks).await;
        assert!((status, refused) == (400, true) && body.contains(says), "{status}: {body}");
    }
    assert_eq!(replica.count(), 0);
    let (status, refused, _) = ask(&[("x-meridian-forward", "1"), ("x-meridian-hops", "1")]).await;
    assert_eq!((status, refused, replica.count()), (200, false, 1));
    // It is not followed, so it has no row of its own.
    let status = us.status().await;
    let taken = status.peers[0].taken;
    assert_eq!((status.peers[0].name.as_str(), taken.begun), ("others", 5));
    assert_eq!((taken.refused, taken.done), (4, 1));
}

/// The result of a stream.
#[derive(Default)]
struct Answered {
    status: String,
    message: String,
    first: Option<Tell>,
}

/// Opens a stream as `eu`, by hand, with one message.
async fn ask(fleet: &Fleet, ask: &Ask) -> Answered {
    let files = peers(&mut fleet.gateway("eu", 2, &[])).clone();
    let stream = tls(fleet, &files, true).await;
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .unwrap();
    tokio::spawn(connection);
    let mut message = Vec::new();
    ask.encode(&mut message);
    let mut framed = vec![0];
    framed.extend((message.len() as u32).to_be_bytes());
    framed.extend(message);
    let request = http::Request::post(format!("https://us-1.us.prod{FOLLOW}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(Open(Some(framed.into())))
        .unwrap();
    let response = sender.send_request(request).await.unwrap();
    let header = |name: &str| {
        let value = response.headers().get(name);
        let text = value.map_or("", |v| v.to_str().unwrap());
        text.replace("%20", " ")
    };
    let mut answered =
        Answered { status: header("grpc-status"), message: header("grpc-message"), first: None };
    if answered.status.is_empty() {
        let frame = response.into_body().frame().await.unwrap().unwrap();
        let data = frame.into_data().unwrap();
        let length = u32::from_be_bytes(data[1..5].try_into().unwrap()) as usize;
        answered.first = Some(Tell::decode(&data[5..5 + length]).unwrap());
    }
    answered
}

/// A body with one piece and no end, so the request does not end with its first message.
struct Open(Option<Bytes>);

impl Body for Open {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        match self.0.take() {
            Some(piece) => Poll::Ready(Some(Ok(Frame::data(piece)))),
            None => Poll::Pending,
        }
    }
}

/// Dials the gateway of `us` with a gateway's files, with or without its certificate.
pub(crate) async fn tls(fleet: &Fleet, files: &Peers, shows: bool) -> TlsStream<TcpStream> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(&files.ca).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_root_certificates(roots);
    let mut config = if shows {
        let chain = vec![CertificateDer::from_pem_file(&files.certificate).unwrap()];
        config
            .with_client_auth_cert(chain, PrivateKeyDer::from_pem_file(&files.key).unwrap())
            .unwrap()
    } else {
        config.with_no_client_auth()
    };
    config.alpn_protocols = vec![b"h2".to_vec()];
    let stream = TcpStream::connect(fleet.address(1)).await.unwrap();
    let name = ServerName::try_from("us-1.us.prod").unwrap();
    TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap()
}
