use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use super::*;
use crate::Error;

const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const TOKEN: &str = "0123456789abcdef";

fn responder(token: Option<&str>) -> (Responder, SocketAddr) {
    let token = token.map(|text| Token::new(text).unwrap());
    let listen = vec![SocketAddr::new(HERE, 0)];
    let responder =
        Responder::start(&Spec { listen, token, idle: Duration::from_secs(3600) }).unwrap();
    let address = responder.addresses()[0];
    (responder, address)
}

fn token(text: &str) -> Token {
    Token::new(text).unwrap()
}

// Two responders measure the loopback: bytes arrive, and round trips take some time.
#[test]
fn responders_measure() {
    let ((_one, a), (_other, b)) = (responder(Some(TOKEN)), responder(Some(TOKEN)));
    let remote = Remote::new(a, &token(TOKEN)).unwrap();
    let sent = remote.send(b, HERE, 2, Duration::from_millis(500)).unwrap();
    assert!(sent.goodput > 1e6 && (0.0..=1.0).contains(&sent.busy), "{sent:?}");
    let rtt = remote.trips(b, HERE, 20).unwrap();
    assert!(rtt.least > Duration::ZERO && rtt.least <= rtt.median, "{rtt:?}");
    // A second measurement of the same responder works as the first.
    assert!(remote.send(b, HERE, 1, Duration::from_millis(300)).is_ok());
}

// Another token, or none, is refused, and the error says what to do.
#[test]
fn a_token_is_required() {
    let ((_one, a), (_other, b)) = (responder(Some(TOKEN)), responder(Some("another-token-0000")));
    for wrong in ["", "0123456789abcdeF"] {
        let error = Remote::new(a, &token(wrong)).err().unwrap().to_string();
        assert!(error.contains("the same MERIDIAN_PROBE_TOKEN"), "{error}");
    }
    // The other responder refuses the streams of the first.
    let remote = Remote::new(a, &token(TOKEN)).unwrap();
    assert!(matches!(remote.trips(b, HERE, 3), Err(Error::Probe { .. })));
    assert!(Token::new("short").err().unwrap().to_string().contains("of 5 characters: use 16"));
    let listen = vec!["0.0.0.0:0".parse().unwrap()];
    let open = Spec { listen, token: None, idle: Duration::from_secs(1) };
    let error = Responder::start(&open).err().unwrap().to_string();
    assert!(
        error.starts_with("--listen 0.0.0.0:0: beyond loopback a token is required"),
        "{error}"
    );
}

// Peers that send garbage, too much, nothing or half of a line neither end the responder nor hinder
// others; a service of another kind is named as that.
#[test]
fn bad_peers_do_no_harm() {
    let ((_one, a), (_other, b)) = (responder(None), responder(None));
    let mut silent: Vec<TcpStream> = (0..8).map(|_| TcpStream::connect(a).unwrap()).collect();
    for garbage in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0xff; 4096], b"order \n", b"data 00\n", b"\n"]
    {
        let mut stream = TcpStream::connect(a).unwrap();
        let _ = stream.write_all(garbage);
        let mut rest = Vec::new();
        // The hello, and then the end or a reset: nothing else.
        let _ = stream.read_to_end(&mut rest);
        assert!(rest.len() < 64, "{}", String::from_utf8_lossy(&rest));
    }
    let _ = silent[0].write_all(b"half a li");
    let remote = Remote::new(a, &token("")).unwrap();
    assert!(remote.trips(b, HERE, 5).is_ok());
    // Orders that are none are answered, and the connection stays open.
    let mut stream = TcpStream::connect(a).unwrap();
    words::introduce(&mut stream, &token(""), words::Role::Order).unwrap();
    let mut ask = |line: &str| {
        words::write_line(&mut stream, line).unwrap();
        words::read_line(&mut stream, 512, PATIENCE).unwrap()
    };
    assert_eq!(ask("dance"), "ready");
    assert_eq!(ask("send x y z"), "failed it is not an order within the limits");
    let mut stream = TcpStream::connect(a).unwrap();
    words::introduce(&mut stream, &token(""), words::Role::Data).unwrap();
    let _ = stream.write_all(b"for ever\n");
    assert_eq!(stream.read(&mut [0; 8]).unwrap_or(0), 0, "it is disconnected");
}

// An address where nothing listens, or another service, or a card that is not there.
#[test]
fn wrong_addresses_are_named() {
    let (_one, a) = responder(None);
    let free = std::net::TcpListener::bind((HERE, 0)).unwrap().local_addr().unwrap();
    let error = Remote::new(free, &token("")).err().unwrap().to_string();
    assert!(error.contains("start `meridian plan probe` there"), "{error}");
    let other = std::net::TcpListener::bind((HERE, 0)).unwrap();
    let address = other.local_addr().unwrap();
    std::thread::spawn(move || {
        let (mut stream, _) = other.accept().unwrap();
        let _ = stream.write_all(b"SSH-2.0-OpenSSH_9.2p1\r\n");
    });
    let error = Remote::new(address, &token("")).err().unwrap().to_string();
    assert!(
        error.contains("another service or version, which says `SSH-2.0-OpenSSH_9.2p1`"),
        "{error}"
    );
    let remote = Remote::new(a, &token("")).unwrap();
    let error = remote.trips(free, HERE, 1).unwrap_err().to_string();
    assert!(error.contains(&format!("connecting to {free}: ")), "{error}");
    let elsewhere = "192.0.2.7".parse().unwrap();
    let error = remote.trips(a, elsewhere, 1).unwrap_err().to_string();
    assert!(error.contains("sending from 192.0.2.7: "), "{error}");
}

// A responder ends after its time without a use, which strangers do not extend, and on request.
#[test]
fn it_ends_itself() {
    let listen = vec![SocketAddr::new(HERE, 0)];
    let spec = Spec { listen, token: Some(token(TOKEN)), idle: Duration::from_millis(200) };
    let responder = Responder::start(&spec).unwrap();
    let strangers: Vec<TcpStream> =
        (0..3).map(|_| TcpStream::connect(responder.addresses()[0]).unwrap()).collect();
    responder.wait();
    drop(strangers);
    let responder = Responder::start(&Spec { idle: Duration::from_secs(3600), ..spec }).unwrap();
    let ender = responder.ender();
    std::thread::spawn(move || ender.end());
    responder.wait();
}
