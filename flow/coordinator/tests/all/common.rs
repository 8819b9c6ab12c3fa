//! A coordinator on a loopback port, and gates that follow it.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use meridian_flow::{Config, policy};
use meridian_gate::{Clock, Gate, Status};
use meridian_messages::{Batch, Port, PortBytes, Request, Settings};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Running {
    /// Starts a coordinator; port 0 is any free one.
    pub(crate) async fn start(port: u16) -> Running {
        let listener = loop {
            // Right after a stop, the port may take a moment to be free again.
            match TcpListener::bind(("127.0.0.1", port)).await {
                Ok(listener) => break listener,
                Err(_) => tokio::task::yield_now().await,
            }
        };
        let address = listener.local_addr().expect("a bound socket has an address");
        let (stop, stopped) = oneshot::channel();
        let config = Config::new(policy::find("mfs").expect("it is in the list"));
        let task = tokio::spawn(async move {
            let shutdown = async { drop(stopped.await) };
            meridian_coordinator::serve(listener, config, shutdown).await.expect("it starts");
        });
        Running { address, stop, task }
    }

    /// Stops it with all of its connections.
    pub(crate) async fn stop(self) {
        let _ = self.stop.send(());
        self.task.await.expect("it ends well");
    }
}

/// A node with one card of 8 Gb/s that follows the coordinator.
pub(crate) fn node(name: &str, coordinator: SocketAddr) -> Gate {
    let port = Port { name: format!("{name}/out"), gbps: 8.0 };
    let mut settings = Settings::new(vec![port]);
    settings.node = name.to_owned();
    settings.coordinator = Some(coordinator.to_string());
    Gate::open(&settings, Clock::default()).expect("the settings are right")
}

/// Waits until the gate's status is as wanted: connections and verdicts come from other threads.
pub(crate) async fn until(gate: &Gate, wanted: impl Fn(&Status) -> bool) {
    let start = Instant::now();
    while !wanted(&gate.status()) {
        assert!(start.elapsed() < Duration::from_secs(60), "never: {:?}", gate.status());
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// A node's part of a batch of ten layers: a collective by its card, and its requests' budgets in ms.
pub(crate) fn part(batch: u64, node: &str, requests: &[(u64, f64)]) -> Batch {
    let request = |(request, left): &(u64, f64)| Request {
        request: *request,
        ttft_left_ms: Some(*left),
        slo_ms: None,
        decode_ms: 0.0,
        plan: vec![],
    };
    let requests = requests.iter().map(request).collect();
    let collectives = vec![PortBytes { port: format!("{node}/out"), bytes: 1 << 20 }];
    Batch { batch, layers: 10, layer_us: 10_000.0, collectives, requests }
}
