//! A scripted API server of Kubernetes: lists and watches of objects that a test sets.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use super::{Replica, chunk};

/// Its objects and what happened to them. A version is the number of events before it.
#[derive(Default)]
struct Objects {
    now: BTreeMap<(&'static str, String), Value>,
    /// Events in order, with the kind of their object; a watch ends after an event without a kind.
    events: Vec<(Option<&'static str>, String)>,
    /// Answers every request with this status.
    refuses: Option<u16>,
    /// The same, for requests about pods.
    refuses_pods: Option<u16>,
    asked: Vec<String>,
}

pub(crate) struct ApiServer {
    objects: Arc<Mutex<Objects>>,
    version: Arc<watch::Sender<usize>>,
    kubeconfig: PathBuf,
}

impl ApiServer {
    pub(crate) async fn start(name: &str) -> ApiServer {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let file = format!("meridian-kubeconfig-{}-{name}.json", std::process::id());
        let server = ApiServer {
            objects: Arc::default(),
            version: Arc::new(watch::channel(0).0),
            kubeconfig: std::env::temp_dir().join(file),
        };
        let config = json!({"apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": format!("http://{addr}")}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u", "namespace": "serving"}}],
            "users": [{"name": "u", "user": {}}]});
        std::fs::write(&server.kubeconfig, config.to_string()).unwrap();
        let (objects, version) = (server.objects.clone(), server.version.clone());
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                tokio::spawn(converse(stream, objects.clone(), version.subscribe()));
            }
        });
        server
    }

    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.kubeconfig.clone()
    }

    /// The paths that were asked for.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.objects.lock().unwrap().asked.clone()
    }

    /// Refuses every request with a status, or answers again. Watches end.
    pub(crate) fn refuses(&self, status: Option<u16>) {
        self.objects.lock().unwrap().refuses = status;
        self.event(None, String::new());
    }

    /// Refuses requests about pods only, or answers them again. Watches end.
    pub(crate) fn refuses_pods(&self, status: Option<u16>) {
        self.objects.lock().unwrap().refuses_pods = status;
        self.event(None, String::new());
    }

    /// Forgets the versions that watches continue from.
    pub(crate) fn compacts(&self) {
        let gone = json!({"type": "ERROR", "object": {"kind": "Status", "apiVersion": "v1",
            "status": "Failure", "reason": "Expired", "code": 410, "message": "too old resource version"}});
        self.event(None, gone.to_string());
    }

    /// An EndpointSlice with one endpoint, at a replica.
    pub(crate) fn slice(&self, name: &str, replica: &Replica, conditions: Value) {
        self.endpoint(name, replica, conditions, json!({}));
    }

    /// The same, with other fields of the endpoint.
    pub(crate) fn endpoint(&self, name: &str, replica: &Replica, conditions: Value, other: Value) {
        let at: SocketAddr = replica.url().trim_start_matches("http://").parse().unwrap();
        let mut endpoint = json!({"addresses": [at.ip().to_string()], "conditions": conditions});
        endpoint.as_object_mut().unwrap().extend(other.as_object().unwrap().clone());
        let slice = json!({"addressType": "IPv4", "endpoints": [endpoint],
            "ports": [{"name": "http", "port": at.port()}]});
        self.put("endpointslices", name, slice);
    }

    /// Adds or changes an object.
    pub(crate) fn put(&self, kind: &'static str, name: &str, mut object: Value) {
        let mut objects = self.objects.lock().unwrap();
        let version = objects.events.len() + 1;
        object["metadata"]["name"] = json!(name);
        object["metadata"]["resourceVersion"] = json!(version.to_string());
        let known = objects.now.insert((kind, name.to_owned()), object.clone());
        let what = if known.is_some() { "MODIFIED" } else { "ADDED" };
        drop(objects);
        self.event(Some(kind), json!({"type": what, "object": object}).to_string());
    }

    pub(crate) fn delete(&self, kind: &'static str, name: &str) {
        let gone = self.objects.lock().unwrap().now.remove(&(kind, name.to_owned()));
        let event = json!({"type": "DELETED", "object": gone.expect("it is there")});
        self.event(Some(kind), event.to_string());
    }

    fn event(&self, kind: Option<&'static str>, line: String) {
        let mut objects = self.objects.lock().unwrap();
        objects.events.push((kind, line));
        self.version.send_replace(objects.events.len());
    }
}

impl Drop for ApiServer {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.kubeconfig);
    }
}

impl Objects {
    fn list(&self, kind: &str) -> String {
        let items = self.now.iter().filter(|((of, _), _)| *of == kind);
        let items: Vec<&Value> = items.map(|(_, object)| object).collect();
        let version = self.events.len().to_string();
        json!({"metadata": {"resourceVersion": version}, "items": items}).to_string()
    }
}

/// Answers the requests of a connection, of which a watch is the last.
async fn converse(
    mut stream: TcpStream,
    objects: Arc<Mutex<Objects>>,
    mut version: watch::Receiver<usize>,
) {
    loop {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            match stream.read_u8().await {
                Ok(byte) => head.push(byte),
                Err(_) => return,
            }
        }
        let head = String::from_utf8(head).unwrap();
        let path = head.split(' ').nth(1).unwrap().to_owned();
        let kind = if path.contains("/endpointslices?") { "endpointslices" } else { "pods" };
        let parameter = |name: &str| {
            let (_, query) = path.split_once('?')?;
            query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))
        };
        let (refuses, list) = {
            let mut objects = objects.lock().unwrap();
            objects.asked.push(path.clone());
            let of_pods = objects.refuses_pods.filter(|_| kind == "pods");
            (objects.refuses.or(of_pods), objects.list(kind))
        };
        let answer = |status: u16, body: &str| {
            let length = body.len();
            format!(
                "HTTP/1.1 {status} Word\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
            )
        };
        let text = match refuses {
            Some(code) => {
                let message = format!("{kind} is forbidden");
                let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure",
                    "reason": "Forbidden", "code": code, "message": message});
                answer(code, &status.to_string())
            }
            None if parameter("watch").is_some() => {
                let from = parameter("resourceVersion").unwrap().parse().unwrap();
                return changes(stream, &objects, kind, from, &mut version).await;
            }
            None => answer(200, &list),
        };
        if stream.write_all(text.as_bytes()).await.is_err() {
            return;
        }
    }
}

/// A watch: the events since a version.
async fn changes(
    mut stream: TcpStream,
    objects: &Mutex<Objects>,
    kind: &str,
    mut from: usize,
    version: &mut watch::Receiver<usize>,
) {
    let head =
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n";
    let mut text = head.to_owned();
    // What ended watches before does not end this one.
    let old = objects.lock().unwrap().events.len();
    loop {
        version.borrow_and_update();
        let events = objects.lock().unwrap().events[from..].to_vec();
        let first = from;
        from += events.len();
        let mut ends = false;
        let news = (first..).zip(&events).filter(|(at, (of, _))| of.is_some() || *at >= old);
        for (_, (of, line)) in news {
            if of.is_none_or(|of| of == kind) && !line.is_empty() {
                text += &chunk(&format!("{line}\n"));
            }
            ends |= of.is_none();
        }
        if ends {
            text += "0\r\n\r\n";
        }
        if stream.write_all(text.as_bytes()).await.is_err() || ends {
            return;
        }
        text.clear();
        if version.changed().await.is_err() {
            return;
        }
    }
}
