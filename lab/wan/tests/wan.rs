//! The emulated WAN with real sockets: bytes and ends pass through unchanged.
//!
//! The machines' own tests assert delays in simulated time. Here delays are short, and the tests
//! assert bytes, ends, limits and counts.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use meridian_base::Rng;

use meridian_fleet::Client;
use meridian_wan::config::{LinkState, SetLink, SetRoute, State, Wan};
use meridian_wan::{Error, Relay};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// A guard for operations that should take milliseconds.
const LIMIT: Duration = Duration::from_secs(60);
const MIB: usize = 1 << 20;

/// A relay from `a` to `b` and back, with a target that the test plays.
struct World {
    relay: Relay,
    door: SocketAddr,
    target: TcpListener,
}

impl World {
    async fn new(more: &str) -> World {
        let target = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let address = target.local_addr().expect("it is bound");
        let yaml = format!(
            "version: 1\nlinks:\n  - {{from: a, to: b, delay: 2ms}}\n  - {{from: b, to: a, delay: \
             3ms}}\nroutes:\n  - {{from: a, to: b, target: '{address}'}}\n{more}"
        );
        let relay = Relay::start(&Wan::read(&yaml).expect("is valid")).await.expect("it starts");
        let door = relay.listen("a-b").expect("the route is there");
        World { relay, door, target }
    }

    /// Both ends of a connection through the relay.
    async fn connect(&self) -> (TcpStream, TcpStream) {
        let near = TcpStream::connect(self.door).await.expect("it listens");
        let accepted = soon("the target is dialled", self.target.accept()).await;
        let (far, _) = accepted.expect("it dials");
        (near, far)
    }

    /// The same, once the last step of the handshake has arrived: with a byte behind it.
    async fn open(&self) -> (TcpStream, TcpStream) {
        let (mut near, mut far) = self.connect().await;
        near.write_all(b"!").await.expect("is open");
        far.read_exact(&mut [0]).await.expect("is open");
        (near, far)
    }

    fn turn(&self, from: &str, to: &str, state: LinkState) {
        let set = SetLink { state: Some(state), ..SetLink::default() };
        self.relay.set_link(from, to, &set).expect("the link is there");
    }

    /// Waits until the state is as expected: the relay's counts follow the sockets.
    async fn until(&self, what: &str, holds: impl Fn(&State) -> bool) -> State {
        let start = Instant::now();
        loop {
            let state = self.relay.state();
            if holds(&state) {
                return state;
            }
            assert!(start.elapsed() < LIMIT, "{what}: not within {LIMIT:?}\n{state:#?}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    async fn all_closed(&self) -> State {
        let is_closed = |state: &State| {
            state.routes.iter().all(|route| route.open == 0)
                && state.links.iter().all(|link| link.open == 0)
        };
        let state = self.until("all connections end", is_closed).await;
        for link in &state.links {
            assert_eq!(link.bytes_in, link.bytes_out + link.dropped, "{link:?}");
        }
        state
    }
}

async fn soon<T>(what: &str, does: impl Future<Output = T>) -> T {
    let done = tokio::time::timeout(LIMIT, does).await;
    done.unwrap_or_else(|_| panic!("{what}: not within {LIMIT:?}"))
}

fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut rng = Rng::new(seed);
    (0..len).map(|_| rng.next_u64().to_le_bytes()[0]).collect()
}

async fn read_all(stream: &mut TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    soon("the stream ends", stream.read_to_end(&mut bytes)).await.expect("is not reset");
    bytes
}

/// Whether a stream ends with a reset, and not as if its sender had finished.
async fn is_reset(stream: &mut TcpStream) -> bool {
    let read = soon("the stream ends", stream.read_to_end(&mut Vec::new())).await;
    read.is_err_and(|e| e.kind() == std::io::ErrorKind::ConnectionReset)
}

// Bytes pass unchanged, both ways at once, and either side may end first.
#[tokio::test]
async fn bytes_and_half_closes_pass_through() {
    let world = World::new("").await;
    let (near, far) = world.connect().await;
    let (there, back) = (noise(1, 3 * MIB), noise(2, 2 * MIB + 1));
    let ends = [(near, there.clone(), back.clone()), (far, back, there)];
    let tasks = ends.map(|(stream, sends, expects)| {
        tokio::spawn(async move {
            let (mut reads, mut writes) = stream.into_split();
            let writing = tokio::spawn(async move {
                writes.write_all(&sends).await.unwrap();
                // The write half is dropped here, which shuts it down; the read half continues.
            });
            let mut bytes = Vec::new();
            soon("the stream ends", reads.read_to_end(&mut bytes)).await.unwrap();
            assert!(bytes == expects, "{} of {} bytes, or others", bytes.len(), expects.len());
            writing.await.unwrap();
        })
    });
    for task in tasks {
        task.await.unwrap();
    }
    let state = world.all_closed().await;
    let counts = |i: usize| (state.links[i].bytes_out, state.links[i].resets);
    assert_eq!((counts(0), counts(1)), ((3 * MIB as u64, 0), (2 * MIB as u64 + 1, 0)));
}

// A client that closes its sending half before the handshake is complete is still served.
#[tokio::test]
async fn an_early_half_close_is_no_cancel() {
    let world = World::new("").await;
    let mut near = TcpStream::connect(world.door).await.unwrap();
    near.write_all(b"question").await.unwrap();
    near.shutdown().await.unwrap();
    let (mut far, _) = soon("the target is dialled", world.target.accept()).await.unwrap();
    assert_eq!(read_all(&mut far).await, b"question");
    far.write_all(b"answer").await.unwrap();
    drop(far);
    assert_eq!(read_all(&mut near).await, b"answer");
    world.all_closed().await;
}

// A reset of one side reaches the other as a reset, in both directions.
#[tokio::test]
async fn resets_pass_through() {
    let world = World::new("").await;
    for is_near in [true, false] {
        let (near, far) = world.connect().await;
        let (dies, mut lives) = if is_near { (near, far) } else { (far, near) };
        dies.set_zero_linger().unwrap();
        drop(dies);
        assert!(is_reset(&mut lives).await, "near: {is_near}");
    }
    assert_eq!(world.all_closed().await.links[0].resets, 2);
}

// A client that disconnects during the answer also ends the sender: its writes fail.
#[tokio::test]
async fn a_cancel_travels_back() {
    let world = World::new("").await;
    let (mut near, mut far) = world.connect().await;
    far.write_all(b"first").await.unwrap();
    let mut first = [0; 5];
    near.read_exact(&mut first).await.unwrap();
    drop(near);
    let fails = async {
        while far.write_all(b"token").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    soon("the sender gets an error", fails).await;
    world.all_closed().await;
}

// If nothing listens, or no target is set yet, a connection is reset; once the target is set, it
// works.
#[tokio::test]
async fn a_missing_target_refuses() {
    let World { relay, door, target } = World::new("").await;
    drop(target);
    let mut near = TcpStream::connect(door).await.unwrap();
    assert!(is_reset(&mut near).await);
    assert_eq!(relay.state().links[0].refused, 1);

    let target = TcpListener::bind("127.0.0.1:0").await.unwrap();
    relay.set_route("a-b", SetRoute { target: target.local_addr().unwrap() }).unwrap();
    let world = World { relay, door, target };
    world.connect().await;
}

// If the reader stops, the relay holds a limited number of bytes: the sender is slowed down, no
// byte is lost, and all arrive once the reader continues.
#[tokio::test]
async fn a_slow_reader_bounds_memory() {
    let world = World::new("buffer: 64KiB\n").await;
    let (mut near, mut far) = world.connect().await;
    // Far beyond the relay's buffer and both sockets' buffers in the kernel.
    let bytes = noise(3, 32 * MIB);
    let expected = bytes.clone();
    let writing = tokio::spawn(async move {
        near.write_all(&bytes).await.unwrap();
        near
    });
    let full = |state: &State| state.links[0].held == 64 << 10;
    world.until("the buffer fills", full).await;
    for _ in 0..50 {
        assert!(world.relay.state().links[0].held <= 64 << 10);
        tokio::task::yield_now().await;
    }
    assert!(!writing.is_finished(), "32 MiB went into 64 KiB");
    let mut read = vec![0; expected.len()];
    soon("all of it arrives", far.read_exact(&mut read)).await.unwrap();
    assert!(read == expected);
    drop(writing.await.unwrap());
    assert_eq!(read_all(&mut far).await, b"");
    drop(far);
    world.all_closed().await;
}

// A cut direction delivers nothing and loses nothing, while the other direction still delivers;
// after the repair everything arrives.
#[tokio::test]
async fn a_one_way_cut_holds_bytes_back() {
    let world = World::new("").await;
    let (mut near, mut far) = world.open().await;
    world.turn("a", "b", LinkState::Cut);
    near.write_all(b"there").await.unwrap();
    far.write_all(b"back").await.unwrap();
    let mut back = [0; 4];
    soon("the other direction delivers", near.read_exact(&mut back)).await.unwrap();
    assert_eq!(&back, b"back");
    let state = world.until("the bytes are held", |state| state.links[0].held == 5).await;
    assert_eq!(state.links[0].bytes_out, 1);
    assert_eq!(state.links[0].state, LinkState::Cut);
    world.turn("a", "b", LinkState::Up);
    let mut there = [0; 5];
    soon("the cut direction delivers", far.read_exact(&mut there)).await.unwrap();
    assert_eq!(&there, b"there");
}

// Over a cut a connect hangs: the target is not dialled, and a client that gives up is forgotten.
#[tokio::test]
async fn a_connect_over_a_cut_hangs() {
    let world = World::new("").await;
    world.turn("a", "b", LinkState::Cut);
    let mut gives_up = TcpStream::connect(world.door).await.unwrap();
    gives_up.write_all(b"never").await.unwrap();
    world.until("its bytes are held", |state| state.links[0].held == 5).await;
    drop(gives_up);
    let state = world.all_closed().await;
    assert_eq!((state.links[0].dropped, state.links[0].bytes_out), (5, 0));

    let mut waits = TcpStream::connect(world.door).await.unwrap();
    waits.write_all(b"hello").await.unwrap();
    world.until("its bytes are held", |state| state.links[0].held == 5).await;
    world.turn("a", "b", LinkState::Up);
    let (mut far, _) = soon("the target is dialled", world.target.accept()).await.unwrap();
    let mut bytes = [0; 5];
    far.read_exact(&mut bytes).await.unwrap();
    assert_eq!(&bytes, b"hello", "the one that gave up is not dialled for");
}

// A lost link resets open and new connections, until it is restored.
#[tokio::test]
async fn a_lost_link_resets() {
    let world = World::new("").await;
    let (mut near, mut far) = world.open().await;
    world.turn("b", "a", LinkState::Down);
    assert!(is_reset(&mut near).await, "the near side");
    assert!(is_reset(&mut far).await, "the far side");
    let mut late = TcpStream::connect(world.door).await.unwrap();
    assert!(is_reset(&mut late).await);
    world.turn("b", "a", LinkState::Up);
    world.connect().await;
}

// Two hundred connections at once, each with its own bytes: none sees another's.
#[tokio::test]
async fn many_connections_do_not_mix() {
    let world = World::new("").await;
    let door = world.door;
    let echo = tokio::spawn(async move {
        for _ in 0..200 {
            let (mut far, _) = world.target.accept().await.unwrap();
            tokio::spawn(async move {
                let (mut reads, mut writes) = far.split();
                tokio::io::copy(&mut reads, &mut writes).await.unwrap();
                writes.shutdown().await.unwrap();
            });
        }
        world.relay
    });
    let clients: Vec<_> = (0..200)
        .map(|seed| {
            tokio::spawn(async move {
                let mut near = TcpStream::connect(door).await.unwrap();
                let bytes = noise(seed, 20_000);
                near.write_all(&bytes).await.unwrap();
                near.shutdown().await.unwrap();
                assert!(read_all(&mut near).await == bytes, "client {seed}");
            })
        })
        .collect();
    for client in clients {
        client.await.unwrap();
    }
    let relay = echo.await.unwrap();
    let state = relay.state();
    assert_eq!((state.links[0].opened, state.links[0].resets), (200, 0));
    relay.stop().await;
}

// The limit on connections holds: the one beyond it is reset, and the others stay open.
#[tokio::test]
async fn connections_are_bounded() {
    let world = World::new("connections: 1\n").await;
    let (mut near, mut far) = world.connect().await;
    let mut second = TcpStream::connect(world.door).await.unwrap();
    assert!(is_reset(&mut second).await);
    near.write_all(b"still").await.unwrap();
    let mut bytes = [0; 5];
    far.read_exact(&mut bytes).await.unwrap();
}

// Stopping resets every connection, including hanging ones, and returns once they are gone.
#[tokio::test]
async fn stopping_ends_everything() {
    let World { relay, door, target } = World::new("").await;
    let mut near = TcpStream::connect(door).await.unwrap();
    let (mut far, _) = soon("the target is dialled", target.accept()).await.unwrap();
    let cut = SetLink { state: Some(LinkState::Cut), ..SetLink::default() };
    relay.set_link("a", "b", &cut).unwrap();
    let mut hangs = TcpStream::connect(door).await.unwrap();
    soon("the relay stops", relay.stop()).await;
    for stream in [&mut near, &mut far, &mut hangs] {
        assert!(is_reset(stream).await);
    }
    assert!(TcpStream::connect(door).await.is_err());
}

// The admin port shows the state, changes links, regions and routes, and refuses invalid requests
// with the remedy.
#[tokio::test]
async fn the_admin_port() {
    let world = World::new("").await;
    let admin = format!("http://{}", world.relay.admin());
    let client = Client::new();
    let post = async |path: &str, body: &'static str| {
        let answer = client.post(&format!("{admin}{path}"), body).await.unwrap();
        (answer.status, String::from_utf8(answer.body.to_vec()).unwrap())
    };
    let (status, _) = post("/admin/links/a/b", r#"{"delay":"80ms","rate":"1MB/s"}"#).await;
    assert_eq!(status, 200);
    let state: State = client.json(&format!("{admin}/admin/wan")).await.unwrap();
    assert_eq!(state.links, world.relay.state().links);
    let link = serde_json::to_string(&state.links[0]).unwrap();
    assert!(link.contains(r#""delay":"80ms","jitter":"0s","rate":"1000000B/s""#), "{link}");

    let (_, text) = post("/admin/regions/b", r#"{"state":"cut"}"#).await;
    let state: State = serde_json::from_str(&text).unwrap();
    assert!(state.links.iter().all(|link| link.state == LinkState::Cut), "{text}");
    let (_, text) = post("/admin/routes/a-b", r#"{"target":"127.0.0.1:9"}"#).await;
    assert!(text.contains(r#""target": "127.0.0.1:9""#), "{text}");

    for (path, body, part) in [
        ("/admin/links/a/mars", "{}", "link a/mars: no such name; use one of a/b"),
        ("/admin/links/a/b", r#"{"delay":"2h"}"#, "delay 7200s: use a minute or less"),
        ("/admin/links/a/b", r#"{"rate":"0B/s"}"#, "is not a rate; write a size per second"),
        ("/admin/links/a/b", r#"{"dealy":"2s"}"#, "unknown field `dealy`"),
        ("/admin/routes/b-a", r#"{"target":"127.0.0.1:9"}"#, "route b-a: no such name"),
        ("/admin/routes/a-b", r#"{"target":"127.0.0.1:0"}"#, "target 127.0.0.1:0: give the"),
    ] {
        let (status, text) = post(path, body).await;
        assert!(status == 400 && text.contains(part), "{path} {body}: {status} {text}");
    }
    assert_eq!(post("/admin/link", "{}").await.0, 404);
}

// An address in use is an error that names the setting and the address.
#[tokio::test]
async fn a_taken_address_is_named() {
    let taken = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let holder = TcpListener::bind(taken).await.unwrap();
    let yaml = format!("version: 1\nroutes:\n  - {{from: us, to: eu, listen: '{taken}'}}\n");
    let error = Relay::start(&Wan::read(&yaml).unwrap()).await.unwrap_err();
    assert!(matches!(error, Error::Listen { .. }), "{error}");
    assert!(error.to_string().starts_with(&format!("routes[0].listen {taken}: ")), "{error}");
    drop(holder);
}
