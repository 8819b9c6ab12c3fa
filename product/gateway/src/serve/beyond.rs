//! Connections beyond `limits.connections`: health checks are answered on them, everything else is
//! refused.
//!
//! A full gateway is alive, and a check that gets no answer would have it restarted with all its
//! streams. So a few more connections are accepted. Each gets one answer and is closed; a silent one
//! loses its place to the next.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONNECTION, HeaderValue};
use http::{Method, Request, Response, StatusCode, Version};
use http_body_util::Full;
use hyper::body::Incoming;
use meridian_protocol::openai::Endpoint;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use crate::certificates::ClientTls;
use crate::health;
use crate::http::connection::{Answers, Serving, converse};
use crate::http::connection_slots::ConnectionSlots;
use crate::inputs::in_force::InForce;
use crate::metrics::Metrics;
use crate::rarely::Rarely;
use crate::refusal::Refusal;
use crate::request::plane::DataPlane;

/// Most connections beyond the limit, from other machines and from this one each.
const BEYOND: usize = 16;
/// Deadline of their one request.
const PATIENCE: Duration = Duration::from_secs(2);

/// Serves them.
pub(super) struct Beyond {
    plane: Arc<DataPlane>,
    places: Arc<ConnectionSlots>,
    log: Rarely,
}

impl Beyond {
    pub(super) fn new(plane: &Arc<DataPlane>) -> Beyond {
        let (places, log) = (ConnectionSlots::new(BEYOND, 0), Rarely::each_second());
        Beyond { plane: plane.clone(), places, log }
    }

    pub(super) fn serve(&self, stream: TcpStream, in_force: &InForce) {
        if let Some(unlogged) = self.log.due("") {
            let limit = in_force.limits.connections.most();
            tracing::warn!(
                limit,
                unlogged,
                "limits.connections is reached; a further client gets answers to health checks only"
            );
        }
        let is_local = stream.peer_addr().is_ok_and(|peer| peer.ip().is_loopback());
        let (place, _) = self.places.enter(is_local);
        let (done, closing) = watch::channel(());
        let serving = Serving {
            answers: Arc::new(OneAnswer { plane: self.plane.clone(), done }),
            settings: in_force.settings.clone(),
            closing,
            client: 0,
            first_by: Instant::now() + PATIENCE,
        };
        let tls = in_force.client_tls.as_deref().map(ClientTls::acceptor);
        let over = self.plane.region.over.clone();
        tokio::spawn(async move {
            let by = serving.first_by;
            let served = async {
                match tls {
                    None => converse(stream, serving).await,
                    Some(tls) => {
                        if let Ok(Ok(stream)) = timeout_at(by, tls.accept(stream)).await {
                            converse(stream, serving).await;
                        }
                    }
                }
            };
            tokio::select! {
                () = served => {}
                () = place.lost() => {}
                () = over.cancelled() => {}
            }
        });
    }
}

/// Answers one request, and has the connection closed.
struct OneAnswer {
    plane: Arc<DataPlane>,
    done: watch::Sender<()>,
}

impl Answers for OneAnswer {
    type Body = Full<Bytes>;

    async fn answer(&self, request: Request<Incoming>, _: u64) -> Response<Full<Bytes>> {
        let DataPlane { region, inputs, metrics, .. } = &*self.plane;
        let (method, path) = (request.method(), request.uri().path());
        let answer = health::answer(region, &inputs.config.now(), metrics, (method, path));
        let mut response = answer.unwrap_or_else(|| {
            let refusal = full();
            metrics.refused(&refusal);
            refusal.response(Endpoint::of(path))
        });
        // HTTP/2 has no such header, and closes by a frame.
        if request.version() < Version::HTTP_2 {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        if *method == Method::HEAD {
            *response.body_mut() = Full::default();
        }
        let _ = self.done.send(());
        response
    }

    fn metrics(&self) -> &Metrics {
        &self.plane.metrics
    }
}

fn full() -> Refusal {
    Refusal::new(
        StatusCode::SERVICE_UNAVAILABLE,
        "connections_full",
        "the gateway has reached limits.connections and answers only health checks on further connections; retry later, or raise the limit",
    )
    .retry_after(Duration::from_secs(1))
}
