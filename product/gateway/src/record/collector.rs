//! A collector, spoken to over OTLP: gRPC, or protobuf in an HTTP request.

use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::uri::PathAndQuery;
use http::{HeaderValue, Method, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use meridian_config::{OtlpProtocol, Traces};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use prost::Message;
use tonic::body::Body;
use tonic::client::Grpc;
use tonic_prost::ProstCodec;

/// The method of gRPC, and the path of HTTP.
const METHOD: PathAndQuery =
    PathAndQuery::from_static("/opentelemetry.proto.collector.trace.v1.TraceService/Export");
const PATH: &str = "/v1/traces";
/// Time for the collector to take a batch, the connection included.
const PATIENCE: Duration = Duration::from_secs(10);
/// Largest answer that is read, bytes.
const MOST_ANSWER: usize = 64 << 10;

/// A connection to one collector.
pub(super) struct Collector {
    origin: Uri,
    client: Speaks,
}

enum Speaks {
    Grpc(Client<HttpConnector, Body>),
    Http(Client<HttpConnector, Full<Bytes>>),
}

impl Collector {
    /// Connects with the first batch.
    pub(super) fn new(to: &Traces) -> Collector {
        let mut builder = Client::builder(TokioExecutor::new());
        let client = match to.protocol {
            OtlpProtocol::Grpc => Speaks::Grpc(builder.http2_only(true).build_http()),
            OtlpProtocol::Http => Speaks::Http(builder.build_http()),
        };
        // The configuration was checked.
        Collector { origin: to.endpoint.parse().unwrap_or_default(), client }
    }

    /// Sends spans. Returns how many of them the collector rejects.
    ///
    /// # Errors
    /// Why it took none, with the remedy.
    pub(super) async fn take(&self, request: ExportTraceServiceRequest) -> Result<u64, String> {
        let sent = async {
            match &self.client {
                Speaks::Grpc(client) => self.call(client, request).await,
                Speaks::Http(client) => self.post(client, &request).await,
            }
        };
        let Ok(answer) = tokio::time::timeout(PATIENCE, sent).await else {
            return Err(format!("no answer within {} s", PATIENCE.as_secs()));
        };
        let rejected = answer?.partial_success.map_or(0, |partial| partial.rejected_spans);
        Ok(u64::try_from(rejected).unwrap_or(0))
    }

    async fn call(
        &self,
        client: &Client<HttpConnector, Body>,
        request: ExportTraceServiceRequest,
    ) -> Result<ExportTraceServiceResponse, String> {
        let mut grpc = Grpc::with_origin(client.clone(), self.origin.clone())
            .max_decoding_message_size(MOST_ANSWER);
        grpc.ready().await.map_err(|error| described(&error))?;
        let codec = ProstCodec::default();
        match grpc.unary(tonic::Request::new(request), METHOD, codec).await {
            Ok(answer) => Ok(answer.into_inner()),
            // As text, a status repeats its message in its own format.
            Err(status) => Err(match std::error::Error::source(&status) {
                Some(cause) => described(cause),
                None => format!("it answered {:?}: {}", status.code(), status.message()),
            }),
        }
    }

    async fn post(
        &self,
        client: &Client<HttpConnector, Full<Bytes>>,
        request: &ExportTraceServiceRequest,
    ) -> Result<ExportTraceServiceResponse, String> {
        let mut post = http::Request::new(Full::from(request.encode_to_vec()));
        *post.method_mut() = Method::POST;
        let origin = self.origin.to_string();
        let address = format!("{}{PATH}", origin.trim_end_matches('/'));
        *post.uri_mut() = address.parse().map_err(|error| format!("{address}: {error}"))?;
        let kind = HeaderValue::from_static("application/x-protobuf");
        post.headers_mut().insert(CONTENT_TYPE, kind);
        let answer = client.request(post).await.map_err(|error| described(&error))?;
        let status = answer.status();
        let body = Limited::new(answer.into_body(), MOST_ANSWER).collect().await;
        let body = body.map_err(|error| format!("the answer stopped early: {error}"))?.to_bytes();
        if !status.is_success() {
            return Err(format!(
                "it answered {status}; check that `traces.protocol` fits the port"
            ));
        }
        // Some answer with an empty object of JSON.
        Ok(ExportTraceServiceResponse::decode(body).unwrap_or_default())
    }
}

/// An error with its innermost cause, if it has another one.
fn described(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    match error.source() {
        Some(_) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}
