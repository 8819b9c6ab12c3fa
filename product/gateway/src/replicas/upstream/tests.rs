mod ended;

use std::sync::atomic::AtomicUsize;

use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;
use crate::replicas::credentials::Credential;

const SOON: Duration = Duration::from_secs(10);

/// A replica that answers every request for the duration of the test.
async fn replica() -> Arc<Dial> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
    let address = listener.local_addr().expect("it is bound").to_string();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let answer = hyper::service::service_fn(|_| async {
                let nothing = http_body_util::Empty::<Bytes>::new();
                Ok::<_, std::convert::Infallible>(http::Response::new(nothing))
            });
            let server = hyper::server::conn::http1::Builder::new();
            tokio::spawn(server.serve_connection(TokioIo::new(stream), answer));
        }
    });
    dial(&format!("http://{address}"), Arc::default())
}

fn dial(url: &str, with: Arc<Credential>) -> Arc<Dial> {
    Dial::new(&url.parse().expect("a URL"), with).expect("has a host")
}

fn connect() -> Arc<ConfigNow> {
    within("1s")
}

/// A configuration with this time for a new connection.
fn within(connect: &str) -> Arc<ConfigNow> {
    let file = format!("version: 1\ntimeouts: {{connect: {connect}}}");
    let config = meridian_config::Gateway::read(&file).expect("is valid");
    ConfigNow::fixed(&config).expect("can be used")
}

fn idle(upstream: &Upstream, replica: &Arc<Dial>) -> usize {
    upstream.of(replica, |lines| lines.idle.len())
}

// In addition to the connection that a request used, the configured number is kept ready for the
// next ones, and each one taken is replaced. Near replicas only have used connections.
#[tokio::test]
async fn far_replicas_have_connections_ready() {
    let replica = replica().await;
    let far = Upstream::far(connect());
    far.get(&replica, "/health", SOON).await.expect("it answers");
    let settled = |many: usize| {
        let (far, replica) = (&far, &replica);
        async move {
            while idle(far, replica) != many {
                tokio::task::yield_now().await;
            }
        }
    };
    tokio::time::timeout(SOON, settled(1 + READY)).await.expect("they are opened");
    for _ in 0..=READY {
        assert!(far.kept(&replica).await.is_some(), "no request has to connect");
    }
    far.make_ready(&replica);
    far.make_ready(&replica);
    tokio::time::timeout(SOON, settled(READY)).await.expect("each is opened once");

    let near = Upstream::new(connect());
    near.get(&replica, "/health", SOON).await.expect("it answers");
    assert_eq!(idle(&near, &replica), 1);
}

// A thread of the gateway may have ended while another thread receives an answer over a connection
// that the first one requested.
#[tokio::test]
async fn an_answer_from_afar_outlives_the_thread_that_asked() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
    let address = listener.local_addr().expect("it is bound").to_string();
    let go = Arc::new(tokio::sync::Notify::new());
    let signal = go.clone();
    tokio::spawn(async move {
        // Ready connections send no request.
        while let Ok((mut stream, _)) = listener.accept().await {
            let signal = signal.clone();
            tokio::spawn(async move {
                let asked = stream.read(&mut [0; 1024]).await.expect("it asks");
                assert!(asked > 0, "it waits for the answer");
                let head = b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nab";
                stream.write_all(head).await.expect("it is there");
                signal.notified().await;
                stream.write_all(b"cd").await.expect("it is there");
                std::future::pending::<()>().await;
            });
        }
    });
    let far = Upstream::far(connect());
    let asked = tokio::task::spawn_blocking(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let replica = dial(&format!("http://{address}"), Arc::default());
        let (headers, body) = (&HeaderMap::new(), &Parts::default());
        let cut = &AtomicBool::new(false);
        let request = Request { method: &Method::GET, path: "/", headers, added: &[], body, cut };
        let answer = far.send(&replica, request);
        runtime.expect("a runtime").block_on(answer)
    });
    let asked = tokio::time::timeout(SOON, asked).await.expect("it is answered");
    let answered = match asked.expect("it did not panic") {
        Ok(answered) => answered,
        Err(error) => panic!("not answered: {error}"),
    };
    go.notify_one();
    let body = tokio::time::timeout(SOON, answered.body.collect()).await.expect("it continues");
    assert_eq!(body.expect("the body arrives").to_bytes(), "abcd");
}

// A burst leaves as many connections as it had requests. Unused ones are closed without a further
// request, and then the replica's entry is removed.
#[tokio::test(start_paused = true)]
async fn idle_connections_are_closed() {
    let replica = replica().await;
    let near = Upstream::new(connect());
    let burst = (0..40).map(|_| near.get(&replica, "/health", SOON));
    for page in futures(burst).await {
        assert_eq!(page.expect("it answers").status, StatusCode::OK);
    }
    assert_eq!(idle(&near, &replica), 40);
    tokio::time::sleep(KEEP / 2).await;
    near.get(&replica, "/health", SOON).await.expect("it answers");
    tokio::time::sleep(KEEP / 2 + SWEEP).await;
    assert_eq!(idle(&near, &replica), 1, "the one that was used is kept");
    tokio::time::sleep(KEEP + SWEEP).await;
    assert!(near.lines.lock().is_empty());
}

/// Runs all concurrently.
async fn futures<T>(all: impl Iterator<Item = impl Future<Output = T>>) -> Vec<T> {
    let mut all: Vec<_> = all.map(|one| (Box::pin(one), None)).collect();
    poll_fn(|cx| {
        for (one, done) in &mut all {
            if done.is_none()
                && let Poll::Ready(value) = one.as_mut().poll(cx)
            {
                *done = Some(value);
            }
        }
        if all.iter().all(|(_, done)| done.is_some()) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    all.into_iter().filter_map(|(_, done)| done).collect()
}

// While a new connection opens, a request takes one that comes back. The new one is there for the next
// request.
#[tokio::test]
async fn a_connection_that_comes_back_is_taken() {
    // Its queue is full with one connection, so the kernel drops the next until that one is accepted.
    let slow = tokio::net::TcpSocket::new_v4().expect("there are sockets");
    slow.bind("127.0.0.1:0".parse().expect("an address")).expect("a port is free");
    let slow = slow.listen(0).expect("it is bound");
    let address = slow.local_addr().expect("it is bound");
    let _first = tokio::net::TcpStream::connect(address).await.expect("there is room for one");
    let slow_one = dial(&format!("http://{address}"), Arc::default());
    let works = replica().await;
    let near = Upstream::new(within("10s"));
    let back = async {
        let other = works.connect(SOON).await.expect("it accepts");
        near.keep(&slow_one, Box::new(Line::new(other)));
    };
    let (page, ()) = tokio::join!(near.get(&slow_one, "/health", SOON), back);
    assert_eq!(page.expect("it answers").status, StatusCode::OK);
    assert_eq!(idle(&near, &slow_one), 1, "the other one is not open");
    let opened = async {
        let _accepted = slow.accept().await.expect("one is queued");
        while idle(&near, &slow_one) != 2 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(SOON, opened).await.expect("it is in the pool");
}

// An unsolicited answer is in the kernel, and the runtime was not notified: the connection is still
// not used again. The same holds for one that has just been closed.
#[tokio::test]
async fn unasked_bytes_are_seen() {
    use std::io::{Read, Write};
    for unasked in ["HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nbad", ""] {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let address = listener.local_addr().expect("it is bound").to_string();
        let replica = dial(&format!("http://{address}"), Arc::default());
        let (go, gone) = std::sync::mpsc::channel::<()>();
        let (said, heard) = std::sync::mpsc::channel();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("it connects");
            let asked = stream.read(&mut [0; 1024]).expect("it asks");
            assert!(asked > 0);
            stream
                .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\ngood")
                .expect("it reads");
            gone.recv().expect("the test waits");
            stream.write_all(unasked.as_bytes()).expect("it is open");
            if unasked.is_empty() {
                drop(stream);
                said.send(None).expect("the test waits");
            } else {
                said.send(Some(stream)).expect("the test waits");
            }
        });
        let near = Upstream::new(connect());
        let page = near.get(&replica, "/", SOON).await.expect("it answers");
        assert_eq!((page.body.as_ref(), idle(&near, &replica)), (&b"good"[..], 1));
        go.send(()).expect("the server waits");
        // The thread blocks, so the runtime is notified of nothing.
        let _open = heard.recv().expect("the server has sent it");
        assert!(near.kept(&replica).await.is_none(), "{unasked:?}");
        assert_eq!(idle(&near, &replica), 0, "it is closed");
        server.join().expect("it did not panic");
    }
}

// Defect late-second-answer: a replica that once sent an answer too many gets no request over a
// connection that has not rested, in which a further one may still arrive.
#[tokio::test]
async fn connections_rest_after_an_answer_too_many() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
    let address = listener.local_addr().expect("it is bound").to_string();
    let (more, mut asked) = tokio::sync::mpsc::channel::<tokio::sync::oneshot::Sender<()>>(1);
    tokio::spawn(async move {
        let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = [0; 1024];
            let _ = stream.read(&mut request).await;
            let _ = stream.write_all(answer).await;
            if let Some(done) = asked.recv().await {
                let _ = stream.write_all(answer).await;
                let _ = done.send(());
                let _ = stream.read(&mut request).await;
            }
        }
    });
    let replica = dial(&format!("http://{address}"), Arc::default());
    let upstream = Upstream::new(connect());
    upstream.get(&replica, "/health", SOON).await.expect("it answers");
    let (done, sent) = tokio::sync::oneshot::channel();
    more.send(done).await.expect("it runs");
    sent.await.expect("it sends");
    // Loopback delivers the bytes with the call that writes them.
    assert!(upstream.kept(&replica).await.is_none(), "the connection has an answer too many");
    upstream.get(&replica, "/health", SOON).await.expect("it answers");
    upstream.of(&replica, |lines| {
        let since = lines.idle[0].since;
        assert!(lines.next(since, false).is_none() && lines.next(since, true).is_none());
        assert!(lines.next(since + SETTLE, false).is_some());
    });
}
