//! Connections that end: pooled ones that a replica closed, and those of engines that die.

use tokio::net::{TcpListener, TcpStream};

use super::*;

/// How a replica treats the requests on one connection.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    /// It answers the first, and ends the connection when the second arrives.
    One,
    /// As before, after some bytes of an answer to the second.
    OneAndSome(&'static str),
    /// As before, and it accepts no further connection.
    OneAndDies,
    /// It ends the connection when the first arrives.
    Dies,
}

/// A replica that counts the requests it received.
async fn replica_that(way: Way, keep_alive: &'static str) -> (Arc<Dial>, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
    let address = listener.local_addr().expect("it is bound").to_string();
    let received = Arc::new(AtomicUsize::new(0));
    let count = received.clone();
    tokio::spawn(async move {
        let dead = Arc::new(Notify::new());
        loop {
            let (stream, _) = tokio::select! {
                accepted = listener.accept() => accepted.expect("it listens"),
                () = dead.notified() => return,
            };
            let (count, dead) = (count.clone(), dead.clone());
            tokio::spawn(async move { serve(stream, way, keep_alive, &count, &dead).await });
        }
    });
    (dial(&format!("http://{address}"), Arc::default()), received)
}

async fn serve(mut stream: TcpStream, way: Way, keep: &str, count: &AtomicUsize, dead: &Notify) {
    for nth in 0.. {
        if stream.read(&mut [0; 1024]).await.expect("it is open") == 0 {
            return;
        }
        count.fetch_add(1, Ordering::Relaxed);
        match way {
            Way::One | Way::OneAndSome(_) | Way::OneAndDies if nth == 0 => {
                let answer = format!("HTTP/1.1 200 OK\r\n{keep}content-length: 2\r\n\r\nok");
                stream.write_all(answer.as_bytes()).await.expect("it is open");
                continue;
            }
            Way::OneAndSome(some) => stream.write_all(some.as_bytes()).await.expect("it is open"),
            Way::OneAndDies => {
                dead.notify_one();
                // The listener is closed before the connection is.
                tokio::task::yield_now().await;
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            Way::One | Way::Dies => {}
        }
        return;
    }
}

fn received(count: &AtomicUsize) -> usize {
    count.load(Ordering::Relaxed)
}

async fn post(near: &Upstream, to: &Arc<Dial>, cut: &AtomicBool) -> Result<(), AttemptError> {
    let (headers, body) = (&HeaderMap::new(), &Parts::single(Bytes::from_static(b"ask")));
    let request = Request { method: &Method::POST, path: "/", headers, added: &[], body, cut };
    let answered = near.send(to, request).await?;
    answered.body.collect().await.expect("it is complete");
    Ok(())
}

// Defect closed-while-idle: a request whose kept connection ends without an answer is sent again over a new one.
// It arrives twice at the most.
#[tokio::test]
async fn a_kept_connection_that_ends() {
    let (replica, count) = replica_that(Way::One, "").await;
    let near = Upstream::new(connect());
    for _ in 0..6 {
        post(&near, &replica, &AtomicBool::new(false)).await.expect("it is answered");
    }
    // The first is sent once, each later one twice.
    assert_eq!(received(&count), 11);
}

// A new connection that ends without an answer is the engine's death, and so is one that can't be
// opened after a kept one ended. A part of an answer shows that the engine had the request.
#[tokio::test]
async fn engines_that_die() {
    let ways = [
        (Way::Dies, 0, 1),
        (Way::OneAndDies, 1, 2),
        (Way::OneAndSome("HTTP/1.1 20"), 1, 2),
        (Way::OneAndSome("HTTP/1.1 100 Continue\r\n\r\n"), 1, 2),
    ];
    for (way, before, all) in ways {
        let (replica, count) = replica_that(way, "").await;
        let near = Upstream::new(connect());
        for _ in 0..before {
            post(&near, &replica, &AtomicBool::new(false)).await.expect("it is answered");
        }
        let error = post(&near, &replica, &AtomicBool::new(false)).await.expect_err("it died");
        assert_eq!((error.fault, received(&count)), (Fault::Died, all), "{error}");
    }
}

// Once a connection has ended during a request, its later attempts take new connections, and the end
// of one is final: a body that kills engines reaches each of them once.
#[tokio::test]
async fn later_attempts_are_sent_once() {
    let cut = AtomicBool::new(false);
    let (first, at_first) = replica_that(Way::Dies, "").await;
    let near = Upstream::new(connect());
    assert!(post(&near, &first, &cut).await.is_err() && cut.load(Ordering::Relaxed));
    let (second, at_second) = replica_that(Way::One, "").await;
    post(&near, &second, &AtomicBool::new(false)).await.expect("its connection is kept");
    post(&near, &second, &cut).await.expect("it goes over a new one");
    assert_eq!((received(&at_first), received(&at_second)), (1, 2));
}

// Defect closed-while-idle: a kept connection is closed before the time that the replica names is over.
// Without one, it is closed after 4 s, and at the latest after 30 s.
#[tokio::test(start_paused = true)]
async fn replicas_name_a_time() {
    for (named, kept_ms) in [
        ("", 4000),
        ("keep-alive: timeout=5, max=100\r\n", 4000),
        ("Keep-Alive: max=5, Timeout=2\r\n", 1000),
        ("keep-alive: timeout=1\r\n", 0),
        ("keep-alive: timeout=600\r\n", 30_000),
        ("keep-alive: timeout=soon\r\n", 4000),
    ] {
        let (replica, _) = replica_that(Way::One, named).await;
        let near = Upstream::new(connect());
        near.get(&replica, "/", SOON).await.expect("it answers");
        assert_eq!(idle(&near, &replica), usize::from(kept_ms > 0), "{named:?}");
        if kept_ms > 0 {
            tokio::time::sleep(Duration::from_millis(kept_ms - 1)).await;
            let line = near.kept(&replica).await.expect("it is used again");
            near.keep(&replica, line);
            tokio::time::sleep(Duration::from_millis(kept_ms)).await;
            assert!(near.kept(&replica).await.is_none(), "{named:?}");
        }
    }
}
