//! A collector of traces: takes OTLP over HTTP, and writes each message as a line of OTLP's JSON, the
//! format of the file exporter of the OpenTelemetry Collector, which reads such files, too.

use std::convert::Infallible;
use std::fs::File;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use prost::Message;
use tokio::net::TcpListener;

use crate::{Error, Result};

/// Largest message, bytes.
const MOST_BODY: usize = 64 << 20;

/// A running collector; it ends with the runtime.
pub(super) struct Collector {
    /// Its address.
    pub(super) address: SocketAddr,
    /// Its file.
    pub(super) file: PathBuf,
}

impl Collector {
    /// Listens on any loopback port.
    pub(super) async fn start(file: PathBuf) -> Result<Collector> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let failed = |source| Error::Listen { field: "traces".into(), address, source };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let mut options = File::options();
        // As readable as the gateways' files.
        let out = options.append(true).create_new(true).mode(0o640).open(&file);
        let out = out.map_err(Error::file("writing", &file))?;
        tokio::spawn(serve(listener, Arc::new(Mutex::new(out)), file.clone()));
        Ok(Collector { address, file })
    }
}

async fn serve(listener: TcpListener, out: Arc<Mutex<File>>, file: PathBuf) {
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            continue;
        };
        let (out, file) = (out.clone(), file.clone());
        let service = service_fn(move |request: Request<Incoming>| {
            let (out, file) = (out.clone(), file.clone());
            async move { Ok::<_, Infallible>(answer(request, &out, &file).await) }
        });
        let http = hyper::server::conn::http1::Builder::new();
        tokio::spawn(http.serve_connection(TokioIo::new(stream), service));
    }
}

/// An empty body is OTLP's answer for "all were taken". A gateway that is refused says so in its log,
/// and counts the requests as dropped.
async fn answer(
    request: Request<Incoming>,
    out: &Mutex<File>,
    file: &Path,
) -> Response<Full<Bytes>> {
    let taken = match Limited::new(request.into_body(), MOST_BODY).collect().await {
        Ok(body) => write(&body.to_bytes(), out, file),
        Err(error) => Err(error.to_string()),
    };
    let mut answer = Response::new(Full::default());
    if let Err(why) = taken {
        *answer.status_mut() = StatusCode::BAD_REQUEST;
        *answer.body_mut() = Full::new(why.into());
    }
    answer
}

fn write(body: &[u8], out: &Mutex<File>, file: &Path) -> std::result::Result<(), String> {
    let message = ExportTraceServiceRequest::decode(body).map_err(|e| e.to_string())?;
    let mut line = serde_json::to_vec(&message).map_err(|e| e.to_string())?;
    line.push(b'\n');
    let mut out = out.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    out.write_all(&line).map_err(|e| Error::file("writing", file)(e).to_string())
}
