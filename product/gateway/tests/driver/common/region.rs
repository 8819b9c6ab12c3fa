//! A gateway with its replicas and its admin port.

use std::net::SocketAddr;

use meridian_config::Gateway as Config;
use meridian_gateway::{Error, Given, Ready, serve};
use meridian_protocol::admin::Status;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::{Answer, Replica, eventually, get};

pub(crate) struct Region {
    pub(crate) listen: SocketAddr,
    pub(crate) admin: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    pub(crate) served: JoinHandle<Result<(), Error>>,
}

/// Round robin over replicas, pushed on arrival: the target of a request is known in advance.
pub(crate) fn config(replicas: &[&Replica]) -> Config {
    let text = "version: 1\nlisten: 127.0.0.1:0\nadmin: 127.0.0.1:0\nsecret: a test's secret\n\
                policy: round_robin\nlimits: {connections: 64}\n";
    let mut config = Config::read(text).unwrap();
    config.replicas = replicas.iter().map(|r| r.spec()).collect();
    config
}

impl Region {
    /// A gateway that has discovered its replicas.
    pub(crate) async fn of(replicas: &[&Replica]) -> Region {
        Region::with(replicas, |_| {}).await
    }

    pub(crate) async fn with(replicas: &[&Replica], change: impl FnOnce(&mut Config)) -> Region {
        let mut config = config(replicas);
        change(&mut config);
        let region = Region::start(config).await;
        region
            .until("every replica is up", |s| {
                s.replicas.iter().all(|r| r.state == "up" && !r.models.is_empty())
            })
            .await;
        region
    }

    /// A gateway that was just started.
    pub(crate) async fn start(given: impl Into<Given>) -> Region {
        let given = given.into();
        assert_eq!(given.config.problems(), Vec::<String>::new());
        let (ready, is_ready) = oneshot::channel();
        let (stop, stopped) = oneshot::channel::<()>();
        let served = tokio::spawn(serve(
            given,
            0,
            |r| ready.send(r).expect("the test waits for it"),
            async move {
                let _ = stopped.await;
            },
        ));
        let Ready { listen, admin, .. } = is_ready.await.expect("the gateway starts");
        Region { listen, admin, stop: Some(stop), served }
    }

    /// The effect of SIGTERM.
    pub(crate) fn shut_down(&mut self) {
        self.stop.take().expect("shut down once").send(()).expect("the gateway runs");
    }

    pub(crate) async fn status(&self) -> Status {
        let page = get(self.admin, "/admin/status").await;
        assert_eq!(page.status, 200);
        let status: Status = serde_json::from_slice(&page.body).unwrap();
        let r = status.requests;
        let ended = r.done + r.client_error + r.rejected + r.failed + r.cancelled;
        assert_eq!(r.accepted, ended + r.in_flight, "every request is in exactly one place: {r:?}");
        status
    }

    pub(crate) async fn until(&self, what: &str, is: impl Fn(&Status) -> bool) -> Status {
        eventually(what, async || Some(self.status().await).filter(&is)).await
    }

    /// The status once nothing is in flight: checks that nothing leaked.
    pub(crate) async fn settled(&self) -> Status {
        self.until("no request is in flight", |s| {
            let idle = s.replicas.iter().all(|r| r.outstanding == 0);
            s.requests.in_flight == 0 && s.held == 0 && idle
        })
        .await
    }

    pub(crate) async fn admin(&self, method: &str, path: &str, body: &str) -> Answer {
        let mut request = super::request(method, path, body);
        if !body.is_empty() {
            let json = http::HeaderValue::from_static("application/json");
            request.headers_mut().insert(http::header::CONTENT_TYPE, json);
        }
        super::call(self.admin, request).await
    }
}
