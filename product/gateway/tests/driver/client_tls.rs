//! Clients over TLS: HTTP/1.1 and HTTP/2 by negotiation, and certificate rotation while the gateway
//! serves.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use meridian_config::Tls;
use meridian_gateway::Given;
use rcgen::{CertificateParams, KeyPair};
use rustls::pki_types::{CertificateDer, ServerName, pem::PemObject};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::{TlsConnector, client::TlsStream};

use crate::common::{Region, Replica, config, get};

/// A folder with a certificate, deleted after the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let dir = std::env::temp_dir().join(format!("meridian-tls-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let folder = Folder(dir);
        folder.certify(2100);
        folder
    }

    fn tls(&self) -> Tls {
        Tls { certificate: self.0.join("gateway.crt"), key: self.0.join("gateway.key") }
    }

    /// Replaces the certificate; the new one expires when this year begins.
    fn certify(&self, year: i32) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec!["gateway.test".to_owned()]).unwrap();
        params.not_after = rcgen::date_time_ymd(year, 1, 1);
        let crt = params.self_signed(&key).unwrap();
        std::fs::write(self.tls().certificate, crt.pem()).unwrap();
        std::fs::write(self.tls().key, key.serialize_pem()).unwrap();
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A client that trusts the certificate in one file.
async fn connect(
    region: &Region,
    trusted: &Path,
    speaks: &[u8],
) -> std::io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(trusted).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![speaks.to_vec()];
    let stream = TcpStream::connect(region.listen).await?;
    stream.set_nodelay(true)?;
    let name = ServerName::try_from("gateway.test").unwrap();
    TlsConnector::from(Arc::new(config)).connect(name, stream).await
}

fn chat() -> Request<Full<Bytes>> {
    let body = r#"{"model":"m","messages":[{"role":"user","content":"hi"}]}"#;
    let uri = "https://gateway.test/v1/chat/completions";
    Request::post(uri).header("host", "gateway.test").body(Full::from(body)).unwrap()
}

// The same answers over TLS, in both versions of HTTP. A client without TLS gets nothing.
#[tokio::test(start_paused = true)]
async fn both_versions_over_tls() {
    let folder = Folder::new("both");
    let replica = Replica::start().await;
    let region = Region::with(&[&replica], |config| config.tls = Some(folder.tls())).await;
    let trusted = folder.tls().certificate;
    let stream = connect(&region, &trusted, b"h2").await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    let (mut two, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .unwrap();
    tokio::spawn(connection);
    let answer = two.send_request(chat()).await.unwrap();
    assert_eq!(
        (answer.status(), answer.version()),
        (200.try_into().unwrap(), http::Version::HTTP_2)
    );
    drop(answer.into_body().collect().await.unwrap());
    let stream = connect(&region, &trusted, b"http/1.1").await.unwrap();
    let (mut one, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    assert_eq!(one.send_request(chat()).await.unwrap().status(), 200);
    let plain = TcpStream::connect(region.listen).await.unwrap();
    let (mut plain, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(plain)).await.unwrap();
    tokio::spawn(connection);
    assert!(plain.send_request(chat()).await.is_err());
    assert_eq!(replica.count(), 2);
}

/// The metric of the client port's certificate.
async fn expiry(region: &Region) -> f64 {
    let answer = get(region.admin, "/metrics").await;
    let page = answer.text();
    let name = "meridian_certificate_expiry_seconds{port=\"clients\"} ";
    let value = page.lines().find_map(|line| line.strip_prefix(name));
    value.unwrap_or_else(|| panic!("{page}")).parse().unwrap()
}

// A certificate replaced in its file is shown to new connections, and the metric of its expiry
// follows. A half-written one changes nothing, and an open connection continues.
#[tokio::test(start_paused = true)]
async fn certificates_are_exchanged_while_serving() {
    let folder = Folder::new("exchange");
    let replica = Replica::start().await;
    let region = Region::with(&[&replica], |config| config.tls = Some(folder.tls())).await;
    let old = folder.0.join("old.crt");
    std::fs::copy(folder.tls().certificate, &old).unwrap();
    let before = connect(&region, &old, b"http/1.1").await.unwrap();
    let (mut before, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(before)).await.unwrap();
    tokio::spawn(connection);
    assert_eq!(before.send_request(chat()).await.unwrap().status(), 200);

    std::fs::write(folder.tls().key, "half a key").unwrap();
    tokio::time::sleep(Duration::from_secs(5)).await;
    connect(&region, &old, b"http/1.1").await.unwrap();

    assert_eq!(expiry(&region).await, 4_102_444_800.0);
    folder.certify(2101);
    tokio::time::sleep(Duration::from_secs(5)).await;
    connect(&region, &folder.tls().certificate, b"http/1.1").await.unwrap();
    connect(&region, &old, b"http/1.1").await.unwrap_err();
    assert_eq!(before.send_request(chat()).await.unwrap().status(), 200);
    assert_eq!(expiry(&region).await, 4_133_980_800.0);
}

// A changed file that names another certificate, not yet there and then there: new connections are
// shown the new one from then on, and it is replaced in its files as the first was.
#[tokio::test(start_paused = true)]
async fn other_files() {
    let (first, second) = (Folder::new("first"), Folder::new("second"));
    let replica = Replica::start().await;
    let mut config = config(&[&replica]);
    config.tls = Some(first.tls());
    let file = first.0.join("gateway.yaml");
    std::fs::write(&file, config.print_with_secrets().unwrap()).unwrap();
    let region = Region::start(Given { file: Some(file.clone()), ..config.clone().into() }).await;
    let old = first.tls().certificate;
    connect(&region, &old, b"http/1.1").await.unwrap();
    let late = second.0.join("late.crt");
    config.tls = Some(Tls { certificate: late.clone(), ..second.tls() });
    std::fs::write(&file, config.print_with_secrets().unwrap()).unwrap();
    tokio::time::sleep(Duration::from_secs(5)).await;
    connect(&region, &old, b"http/1.1").await.unwrap();
    std::fs::copy(second.tls().certificate, &late).unwrap();
    tokio::time::sleep(Duration::from_secs(5)).await;
    connect(&region, &late, b"http/1.1").await.unwrap();
    connect(&region, &old, b"http/1.1").await.unwrap_err();
    second.certify(2101);
    std::fs::copy(second.tls().certificate, &late).unwrap();
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(expiry(&region).await, 4_133_980_800.0);
}

// A client that connects and stays silent, or stops during the TLS handshake, is disconnected.
#[tokio::test(start_paused = true)]
async fn silence_is_bounded() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let folder = Folder::new("silence");
    let replica = Replica::start().await;
    let region = Region::with(&[&replica], |config| config.tls = Some(folder.tls())).await;
    for begins in [&b""[..], &[0x16, 0x03, 0x01]] {
        let mut stream = TcpStream::connect(region.listen).await.unwrap();
        stream.write_all(begins).await.unwrap();
        let mut rest = Vec::new();
        // A reset also ends the connection.
        let _ = stream.read_to_end(&mut rest).await;
        assert!(rest.is_empty());
    }
}
