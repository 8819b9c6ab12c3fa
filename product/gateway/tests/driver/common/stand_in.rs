//! One of several control planes of a registry. It forwards every connection to the one control
//! plane that has the store, so all of them have the same revisions and leases, until the test makes
//! it fail.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use crate::ports::free_port;

/// The treatment of connections.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Does {
    /// They are forwarded.
    Serves,
    /// New ones are accepted, and all stay silent.
    Hangs,
    /// Requests on new ones get this status; the open ones continue.
    Answers(u16),
}

pub(crate) struct StandIn {
    address: SocketAddr,
    plane: SocketAddr,
    does: watch::Sender<Does>,
    requests: Requests,
    served: Option<JoinHandle<()>>,
}

/// The first line of each request that arrived.
type Requests = Arc<Mutex<Vec<String>>>;

impl StandIn {
    /// Of the control plane at this address.
    pub(crate) async fn of(plane: SocketAddr) -> StandIn {
        let listener = TcpListener::bind(("127.0.0.1", free_port())).await.unwrap();
        let (address, does) = (listener.local_addr().unwrap(), watch::Sender::new(Does::Serves));
        let mut stand_in =
            StandIn { address, plane, does, requests: Requests::default(), served: None };
        stand_in.serve(listener);
        stand_in
    }

    fn serve(&mut self, listener: TcpListener) {
        let (plane, does, requests) = (self.plane, self.does.clone(), self.requests.clone());
        self.served = Some(tokio::spawn(async move {
            // Dropped with the task, which closes every connection.
            let mut open = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                while open.try_join_next().is_some() {}
                open.spawn(one(stream, plane, does.subscribe(), requests.clone()));
            }
        }));
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn does(&self, what: Does) {
        self.does.send_replace(what);
    }

    /// Ends it: its connections break, and new ones are refused.
    pub(crate) async fn kill(&mut self) {
        let served = self.served.take().expect("it runs");
        served.abort();
        assert!(served.await.unwrap_err().is_cancelled());
    }

    /// Starts it at the same address.
    pub(crate) async fn start_again(&mut self) {
        self.does(Does::Serves);
        self.serve(TcpListener::bind(self.address).await.unwrap());
    }

    /// The requests since the last call, as `GET /admin/registry`.
    pub(crate) fn requests(&self) -> Vec<String> {
        std::mem::take(&mut *self.requests.lock().unwrap())
    }
}

async fn one(
    mut stream: TcpStream,
    plane: SocketAddr,
    mut does: watch::Receiver<Does>,
    requests: Requests,
) {
    let begins_as = *does.borrow_and_update();
    if begins_as == Does::Hangs {
        let _ = does.changed().await;
        return;
    }
    let mut first = vec![0; 1 << 16];
    let Ok(length @ 1..) = stream.read(&mut first).await else { return };
    let line = String::from_utf8_lossy(&first[..length]);
    let line = line.split(" HTTP").next().unwrap_or_default().to_owned();
    requests.lock().unwrap().push(line);
    if let Does::Answers(status) = begins_as {
        let body =
            format!(r#"{{"error":{{"code":"test","message":"as the test says: {status}"}}}}"#);
        let head = format!("HTTP/1.1 {status} Test\r\ncontent-length: {}\r\n\r\n", body.len());
        let _ = stream.write_all((head + &body).as_bytes()).await;
        // The client closes it.
        let _ = stream.read(&mut first).await;
        return;
    }
    let Ok(mut plane) = TcpStream::connect(plane).await else { return };
    plane.write_all(&first[..length]).await.unwrap();
    let hangs = async |does: &mut watch::Receiver<Does>, hangs: bool| {
        let _ = does.wait_for(|does| (*does == Does::Hangs) == hangs).await;
    };
    tokio::select! {
        _ = copy_bidirectional(&mut stream, &mut plane) => return,
        () = hangs(&mut does, true) => {}
    }
    // The connection is closed when it no longer hangs.
    hangs(&mut does, false).await;
}
