//! Clients that are no nodes, and nodes that misbehave.

use meridian_messages::{LONGEST, Port, ToCoordinator, ToNode};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use crate::common::{Running, node, part, until};

/// Sends bytes and returns everything that comes back until the end of the connection.
async fn say(running: &Running, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(running.address).await.expect("it listens");
    // The coordinator may close before it has read everything.
    let _ = stream.write_all(bytes).await;
    let _ = stream.shutdown().await;
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8_lossy(&answer).into_owned()
}

fn line(message: &ToCoordinator) -> Vec<u8> {
    let mut line = serde_json::to_vec(message).expect("plain data");
    line.push(b'\n');
    line
}

fn hello(version: u32) -> Vec<u8> {
    let ports = vec![Port { name: "x/out".to_owned(), gbps: 8.0 }];
    line(&ToCoordinator::Hello { version, node: "x".to_owned(), ports })
}

// Connections that do not speak the protocol are refused with a reason, and a real node's verdicts
// come as before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn strangers_are_refused() {
    let running = Running::start(0).await;
    let cases: [(&[u8], &str); 4] = [
        (b"GET / HTTP/1.1\r\n\r\n", "not a message of a flow gate: expected value at line 1"),
        (&hello(99), "version is 99 and must be 1: install the same release on all hosts"),
        (&line(&ToCoordinator::Ended { request: 1 }), "the first message must be hello"),
        (b"\xff\xfe\n", "not a message of a flow gate: expected value at line 1"),
    ];
    for (bytes, why) in cases {
        let answer = say(&running, bytes).await;
        match serde_json::from_str(&answer).expect("it says why") {
            ToNode::Refused { why: said } => assert!(said.starts_with(why), "{said}"),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(say(&running, b"").await.matches("refused").count(), 1);
    // The coordinator closes with bytes unread, so its answer may be lost with the connection.
    let long = say(&running, &vec![b' '; LONGEST + 10]).await;
    assert!(long.is_empty() || long.contains("longer than"), "{long}");
    let a = node("a", running.address);
    until(&a, |status| status.coordinator == Some(true)).await;
    a.batch(&part(1, "a", &[(1, 1e6)])).expect("it is new");
    until(&a, |status| status.verdicts >= 1).await;
    running.stop().await;
}

// A node sends values that the machine can't take, reports everything twice, and stops reading. The
// others get their verdicts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_misbehaves_harms_no_other() {
    let running = Running::start(0).await;
    let mut stream = TcpStream::connect(running.address).await.expect("it listens");
    stream.write_all(&hello(1)).await.expect("it reads");
    let mut reader = BufReader::new(&mut stream);
    let mut welcome = String::new();
    reader.read_line(&mut welcome).await.expect("it answers");
    assert!(welcome.contains("welcome"), "{welcome}");
    for batch in 0..3000 {
        let mut wrong = part(batch % 700, "x", &[(batch, f64::from(batch as u32) - 100.0)]);
        match batch % 4 {
            0 => wrong.layers = 0,
            1 => wrong.collectives[0].port = "nowhere".to_owned(),
            2 => wrong.requests.clear(),
            _ => {}
        }
        stream.write_all(&line(&ToCoordinator::Batch(wrong))).await.expect("it reads");
        if batch % 5 == 0 {
            let departed = ToCoordinator::Departed { batch: batch % 700 };
            stream.write_all(&line(&departed)).await.expect("it reads");
            stream
                .write_all(&line(&ToCoordinator::Ended { request: batch }))
                .await
                .expect("it reads");
        }
    }
    let a = node("a", running.address);
    until(&a, |status| status.coordinator == Some(true)).await;
    a.batch(&part(9000, "a", &[(9000, 1e6)])).expect("it is new");
    until(&a, |status| status.verdicts >= 1).await;
    running.stop().await;
}
