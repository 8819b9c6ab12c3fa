//! Sends the spans of finished requests to a collector.
//!
//! The thread that writes records only moves spans into a queue. Another thread sends them, in
//! batches, and gives each ten seconds. A full queue drops spans; so does a batch that the collector
//! does not take, which is not sent again, since newer spans wait. All of them are counted by their
//! requests. The log reports the first failure and the end of it.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::time::{Duration, Instant};

use meridian_config::Traces as Target;
use opentelemetry_proto::tonic::trace::v1::Span;
use prometheus_client::metrics::counter::Counter;

use super::collector::Collector;
use super::otlp;

/// Most requests whose spans are in the queue.
const MOST_QUEUED: usize = 2048;
/// Spans after which a batch is sent: about 300 KB, far below the 4 MiB that collectors take.
const BATCH: usize = 512;
/// Time for further spans to arrive.
const PAUSE: Duration = Duration::from_millis(200);
/// Time for the collector to take the queued spans when the gateway ends.
const FAREWELL: Duration = Duration::from_secs(3);

/// The spans of one request.
struct Request {
    spans: Vec<Span>,
    to: Arc<Target>,
}

/// The traces of this gateway. The first request that is traced starts the thread.
pub(super) struct Traces {
    /// Attributes of this gateway.
    resource: Vec<(&'static str, String)>,
    dropped: Counter,
    exporter: Option<Exporter>,
    is_slow: bool,
}

/// The queue of spans, and the thread behind it.
struct Exporter {
    queue: SyncSender<Request>,
    /// Closed when the thread has sent everything.
    done: Receiver<()>,
}

impl Traces {
    pub(super) fn new(resource: Vec<(&'static str, String)>, dropped: Counter) -> Traces {
        Traces { resource, dropped, exporter: None, is_slow: false }
    }

    /// Passes the spans of a request on, or drops them.
    pub(super) fn push(&mut self, spans: Vec<Span>, to: Arc<Target>) {
        let exporter = match &mut self.exporter {
            Some(exporter) => exporter,
            none => match Exporter::start(self.resource.clone(), self.dropped.clone()) {
                Ok(exporter) => none.insert(exporter),
                Err(error) => {
                    self.dropped.inc();
                    tracing::error!(%error, "traces are lost: their thread cannot start");
                    return;
                }
            },
        };
        if let Err(TrySendError::Full(lost) | TrySendError::Disconnected(lost)) =
            exporter.queue.try_send(Request { spans, to })
        {
            self.dropped.inc();
            if !std::mem::replace(&mut self.is_slow, true) {
                let endpoint = &lost.to.endpoint;
                tracing::error!(
                    endpoint,
                    queued = MOST_QUEUED,
                    "the collector takes traces too slowly, and some are lost; lower traces.sample, or give it more capacity"
                );
            }
        }
    }

    /// Sends what is queued, for a few seconds at most.
    pub(super) fn stop(&mut self) -> Result<(), String> {
        let Some(Exporter { queue, done }) = self.exporter.take() else { return Ok(()) };
        drop(queue);
        match done.recv_timeout(FAREWELL) {
            Err(RecvTimeoutError::Timeout) => {
                let waited = FAREWELL.as_secs();
                Err(format!("traces: the collector did not take the last spans within {waited} s"))
            }
            _ => Ok(()),
        }
    }
}

impl Exporter {
    fn start(resource: Vec<(&'static str, String)>, dropped: Counter) -> std::io::Result<Exporter> {
        let (queue, requests) = sync_channel(MOST_QUEUED);
        let (alive, done) = sync_channel(0);
        let sender = Sender { resource, collector: None, dropped, has_failed: false };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let thread = std::thread::Builder::new().name("traces".to_owned());
        thread.spawn(move || {
            sender.run(&requests, &runtime);
            drop::<SyncSender<()>>(alive);
        })?;
        Ok(Exporter { queue, done })
    }
}

/// The end of the queue that sends.
struct Sender {
    resource: Vec<(&'static str, String)>,
    /// The collector of the newest batch.
    collector: Option<(Arc<Target>, Collector)>,
    dropped: Counter,
    has_failed: bool,
}

impl Sender {
    fn run(mut self, requests: &Receiver<Request>, runtime: &tokio::runtime::Runtime) {
        // A request that belongs to the next batch.
        let mut kept = None;
        while let Some(first) = kept.take().or_else(|| requests.recv().ok()) {
            let Request { mut spans, to } = first;
            let mut count = 1;
            let until = Instant::now() + PAUSE;
            while spans.len() < BATCH {
                match requests.recv_timeout(until.saturating_duration_since(Instant::now())) {
                    Ok(next) if next.to != to => {
                        kept = Some(next);
                        break;
                    }
                    Ok(next) => {
                        spans.extend(next.spans);
                        count += 1;
                    }
                    Err(_) => break,
                }
            }
            runtime.block_on(self.send(spans, count, to));
        }
    }

    async fn send(&mut self, spans: Vec<Span>, requests: u64, to: Arc<Target>) {
        assert!(requests > 0, "spans of no request");
        let collector = match &mut self.collector {
            Some((known, collector)) if *known == to => collector,
            other => &mut other.insert((to.clone(), Collector::new(&to))).1,
        };
        let mut resource = self.resource.clone();
        resource.push(("service.name", to.service_name.clone()));
        let sent = collector.take(otlp::request(&resource, spans)).await;
        let endpoint = &to.endpoint;
        let error = match sent {
            Ok(0) => {
                if std::mem::take(&mut self.has_failed) {
                    tracing::info!(endpoint, "traces are sent again");
                }
                return;
            }
            Ok(rejected) => {
                self.dropped.inc_by(rejected.min(requests));
                format!("it rejected {rejected} spans")
            }
            Err(error) => {
                self.dropped.inc_by(requests);
                error
            }
        };
        if !std::mem::replace(&mut self.has_failed, true) {
            tracing::error!(
                endpoint,
                error,
                "the collector does not take traces, and they are lost until it works again; check traces.endpoint and traces.protocol"
            );
        }
    }
}
