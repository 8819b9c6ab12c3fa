//! A control plane inside a test, used over its sockets.

// Each test program uses a part of this file.
#![allow(dead_code)]

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use meridian_config::Control as Config;
use meridian_control::serve::{ServeError, serve};
use meridian_protocol::registry::{Snapshot, Update};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::ports::free_port;

pub(crate) struct Plane {
    /// The folder of its file, if its store is one.
    dir: Option<PathBuf>,
    config: Config,
    admin: std::net::SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    served: JoinHandle<Result<(), ServeError>>,
}

static PLANES: AtomicU32 = AtomicU32::new(0);

impl Plane {
    /// Starts one with a new file, and more lines of configuration.
    pub(crate) async fn start(more: &str) -> Plane {
        let number = PLANES.fetch_add(1, Ordering::Relaxed);
        let dir = format!("meridian-plane-{}-{number}", std::process::id());
        let dir = std::env::temp_dir().join(dir);
        std::fs::create_dir_all(&dir).unwrap();
        let store = format!("store: {}\n", dir.join("store.redb").display());
        let mut plane = Plane::on(&store, more).await;
        plane.dir = Some(dir);
        plane
    }

    /// Starts one with this store.
    pub(crate) async fn on(store: &str, more: &str) -> Plane {
        // Its clients find it on the same port after a restart.
        let port = free_port();
        let yaml = format!("version: 1\n{store}admin: 127.0.0.1:{port}\n{more}");
        let config = Config::read(&yaml).unwrap();
        let (admin, stop, served) = begin(config.clone()).await;
        Plane { dir: None, config, admin, stop: Some(stop), served }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.admin)
    }

    pub(crate) fn address(&self) -> std::net::SocketAddr {
        self.admin
    }

    pub(crate) async fn stop(&mut self) {
        self.stop.take().unwrap().send(()).unwrap();
        (&mut self.served).await.unwrap().unwrap();
    }

    /// Restarts it, with the same file and port.
    pub(crate) async fn start_again(&mut self) {
        let (admin, stop, served) = begin(self.config.clone()).await;
        (self.admin, self.stop, self.served) = (admin, Some(stop), served);
    }

    /// Deletes its file; only while it is stopped.
    pub(crate) fn lose_file(&self) {
        std::fs::remove_file(self.config.store.as_ref().unwrap()).unwrap();
    }

    async fn send(&self, request: Request<Full<Bytes>>) -> hyper::Response<Incoming> {
        let stream = TcpStream::connect(self.admin).await.unwrap();
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        sender.send_request(request).await.unwrap()
    }

    pub(crate) async fn with(
        &self,
        method: &str,
        path: &str,
        body: Value,
        token: Option<&str>,
    ) -> (u16, Value) {
        let mut request = Request::builder().method(method).uri(path).header("host", "localhost");
        if !body.is_null() {
            request = request.header("content-type", "application/json");
        }
        if let Some(token) = token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let answer = self.send(request.body(Full::new(body.into())).unwrap()).await;
        let status = answer.status().as_u16();
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        (status, serde_json::from_slice(&body).unwrap_or_default())
    }

    /// A request with exactly these headers.
    pub(crate) async fn raw(
        &self,
        method: &str,
        path: &str,
        body: &str,
        headers: &[(&str, &str)],
    ) -> (u16, Value) {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let answer = self.send(request.body(Full::new(body.to_owned().into())).unwrap()).await;
        let status = answer.status().as_u16();
        if answer.headers().get("content-type").is_some_and(|kind| kind == "text/event-stream") {
            return (status, Value::Null);
        }
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        (status, serde_json::from_slice(&body).unwrap_or_default())
    }

    pub(crate) async fn ask(&self, method: &str, path: &str, body: Value) -> (u16, Value) {
        self.with(method, path, body, None).await
    }

    pub(crate) async fn get(&self, path: &str) -> Value {
        let (status, said) = self.ask("GET", path, Value::Null).await;
        assert_eq!(status, 200, "{path}: {said}");
        said
    }

    pub(crate) async fn text(&self, path: &str) -> String {
        let request = Request::get(path).header("host", "localhost").body(Full::default()).unwrap();
        let body = self.send(request).await.into_body().collect().await.unwrap().to_bytes();
        String::from_utf8(body.to_vec()).unwrap()
    }

    pub(crate) async fn snapshot(&self) -> Snapshot {
        serde_json::from_value(self.get("/admin/registry").await).unwrap()
    }
}

impl Drop for Plane {
    fn drop(&mut self) {
        if let Some(dir) = &self.dir {
            let _ = std::fs::remove_dir_all(dir);
        }
    }
}

type Started = (std::net::SocketAddr, oneshot::Sender<()>, JoinHandle<Result<(), ServeError>>);

async fn begin(config: Config) -> Started {
    let (ready, is_ready) = oneshot::channel();
    let (stop, stopped) = oneshot::channel::<()>();
    let served = tokio::spawn(serve(
        config,
        |r| ready.send(r).expect("the test waits for it"),
        async move {
            let _ = stopped.await;
        },
    ));
    match is_ready.await {
        Ok(ready) => (ready.admin, stop, served),
        Err(_) => panic!("it does not start: {:?}", served.await),
    }
}

/// A watch from after a snapshot.
pub(crate) struct Watching {
    body: Incoming,
    buffer: String,
}

impl Watching {
    /// Resumes with the last event's id, as a browser would; else by the next revision.
    pub(crate) async fn begin(plane: &Plane, held: &Snapshot, last: Option<&str>) -> Watching {
        let path = format!("/admin/watch?from={}&store={}", held.revision + 1, held.store);
        let mut request = Request::get(path).header("host", "localhost");
        if let Some(last) = last {
            request = request.header("last-event-id", last);
        }
        let answer = plane.send(request.body(Full::default()).unwrap()).await;
        assert_eq!(answer.status(), 200);
        let mut watching = Watching { body: answer.into_body(), buffer: String::new() };
        assert_eq!(watching.event().await.0, "beat");
        watching
    }

    /// The next event: its name and its data.
    pub(crate) async fn event(&mut self) -> (String, String) {
        self.event_or_end().await.expect("the watch continues")
    }

    /// The same; none if the watch has ended.
    pub(crate) async fn event_or_end(&mut self) -> Option<(String, String)> {
        loop {
            if let Some((event, rest)) = self.buffer.split_once("\n\n") {
                let field = |name: &str| {
                    let found = event.lines().find_map(|line| line.strip_prefix(name));
                    found.unwrap_or_default().to_owned()
                };
                let found = (field("event: "), field("data: "));
                self.buffer = rest.to_owned();
                return Some(found);
            }
            let frame = self.body.frame().await?.unwrap();
            self.buffer.push_str(std::str::from_utf8(frame.data_ref().unwrap()).unwrap());
        }
    }

    /// Applies updates until the snapshot is as expected; returns how many there were.
    pub(crate) async fn until(
        &mut self,
        held: &mut Snapshot,
        is: impl Fn(&Snapshot) -> bool,
    ) -> usize {
        let mut updates = 0;
        for _ in 0..100 {
            if is(held) {
                return updates;
            }
            let (name, data) = self.event().await;
            if name == "update" {
                let update: Update = serde_json::from_str(&data).unwrap();
                assert!(update.revision > held.revision, "each change comes once");
                held.apply(update);
                updates += 1;
            }
        }
        panic!("not within a hundred events: {held:#?}");
    }
}
