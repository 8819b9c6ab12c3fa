//! The admin port with certificates: which clients it admits, and what they may change.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use meridian_config::Control;
use meridian_control::serve::serve;
use meridian_protocol::peer::{Identity, Party, control_name};
use meridian_tls::{Files, client};
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, ExtendedKeyUsagePurpose,
    IsCa, Issuer, KeyIdMethod, KeyPair, KeyUsagePurpose, RevokedCertParams, SanType, SerialNumber,
    date_time_ymd,
};
use rustls::pki_types::ServerName;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio_rustls::TlsConnector;

/// A fleet's CA, and a folder that is deleted after the test.
struct Fleet {
    dir: PathBuf,
    issuer: Issuer<'static, KeyPair>,
}

impl Fleet {
    fn new(name: &str) -> Fleet {
        let dir =
            std::env::temp_dir().join(format!("meridian-control-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        std::fs::write(dir.join("ca.crt"), params.self_signed(&key).unwrap().pem()).unwrap();
        Fleet { dir, issuer: Issuer::new(params, key) }
    }

    /// Issues a certificate to a party, in files of this name.
    fn issue(&self, party: &Party, file: &str) -> Files {
        let key = KeyPair::generate().unwrap();
        let names: Vec<String> = party.dns_name().into_iter().collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.subject_alt_names.push(SanType::URI(party.uri().try_into().unwrap()));
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        params.serial_number = Some(serial(file));
        let crt = params.signed_by(&key, &self.issuer).unwrap();
        let path = |kind: &str| self.dir.join(format!("{file}.{kind}"));
        std::fs::write(path("crt"), crt.pem()).unwrap();
        std::fs::write(path("key"), key.serialize_pem()).unwrap();
        let ca = Some(self.dir.join("ca.crt"));
        Files { section: "test".into(), ca, crl: None, certificate: path("crt"), key: path("key") }
    }

    /// Writes a list that revokes the certificates in these files.
    fn revoke(&self, files: &[&str]) {
        let revoked = |file: &&str| RevokedCertParams {
            serial_number: serial(file),
            revocation_time: date_time_ymd(2025, 1, 1),
            reason_code: None,
            invalidity_date: None,
        };
        let list = CertificateRevocationListParams {
            this_update: date_time_ymd(2025, 1, 1),
            next_update: date_time_ymd(2125, 1, 1),
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: files.iter().map(revoked).collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        let list = list.signed_by(&self.issuer).unwrap();
        std::fs::write(self.dir.join("ca.crl"), list.pem().unwrap()).unwrap();
    }

    /// Starts a control plane with the files of `control`.
    async fn start(&self) -> (SocketAddr, oneshot::Sender<()>) {
        let dir = self.dir.display();
        let has_list = self.dir.join("ca.crl").exists();
        let crl = if has_list { format!(", crl: {dir}/ca.crl") } else { String::new() };
        let yaml = format!(
            "version: 1\nstore: {dir}/store.redb\nadmin: 127.0.0.1:0\n\
             tls: {{ca: {dir}/ca.crt, certificate: {dir}/control.crt, key: {dir}/control.key{crl}}}\n"
        );
        let config = Control::read(&yaml).unwrap();
        let (ready, is_ready) = oneshot::channel();
        let (stop, stopped) = oneshot::channel::<()>();
        tokio::spawn(serve(config, |r| ready.send(r).unwrap(), async move {
            let _ = stopped.await;
        }));
        let ready = is_ready.await.expect("it starts");
        assert!(ready.tls);
        (ready.admin, stop)
    }
}

fn serial(file: &str) -> SerialNumber {
    SerialNumber::from(file.as_bytes().to_vec())
}

impl Drop for Fleet {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

/// A request with a party's certificate; none if there is no answer.
async fn ask(
    at: SocketAddr,
    files: &Files,
    (method, path): (&str, &str),
    body: Value,
) -> Option<(u16, Value)> {
    let config = client(files, files.read().unwrap(), &[b"http/1.1"]).unwrap();
    let stream = TcpStream::connect(at).await.unwrap();
    let name = ServerName::try_from(control_name("prod")).unwrap();
    let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.ok()?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.ok()?;
    tokio::spawn(connection);
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let request = Request::builder().method(method).uri(path).header("host", "control");
    let request = request.header("content-type", "application/json");
    let request = request.body(Full::new(Bytes::from(body))).unwrap();
    let answer = sender.send_request(request).await.ok()?;
    let status = answer.status().as_u16();
    let body = answer.into_body().collect().await.ok()?.to_bytes();
    Some((status, serde_json::from_slice(&body).unwrap_or_default()))
}

fn gateway(region: &str, name: &str) -> Party {
    Party::Gateway(Identity::new("prod", region, name).unwrap())
}

// Operators may change everything, a gateway only its own lease in its own region, and all may
// read; another fleet's certificate is refused.
#[tokio::test]
async fn each_may_what_is_theirs() {
    let fleet = Fleet::new("roles");
    fleet.issue(&Party::control("prod", "c-1").unwrap(), "control");
    let alice = fleet.issue(&Party::operator("prod", "alice").unwrap(), "alice");
    let eu = fleet.issue(&gateway("eu", "eu-1"), "eu-1");
    let (at, _stop) = fleet.start().await;
    let code = async |files: &Files, what: (&str, &str), body: Value| {
        ask(at, files, what, body).await.map(|(status, said)| {
            (status, said["error"]["code"].as_str().unwrap_or_default().to_owned())
        })
    };
    let ok = |status: u16| Some((status, String::new()));
    let not_yours = Some((403, "not_yours".to_owned()));
    let replica = json!({"region": "eu", "spec": {"url": "http://10.0.0.1:80"}});
    let put = ("PUT", "/admin/replicas/a?force=true");
    assert_eq!(code(&eu, put, replica.clone()).await, not_yours);
    assert_eq!(code(&alice, put, replica).await, ok(201));
    let announce = |region: &str| json!({"gateway": {"region": region, "address": "x", "version": "1"}, "lease": "5s"});
    let own = ("POST", "/admin/gateways/eu-1");
    assert_eq!(code(&eu, ("POST", "/admin/gateways/us-1"), announce("us")).await, not_yours);
    assert_eq!(code(&eu, own, announce("us")).await, not_yours);
    assert_eq!(code(&eu, own, announce("eu")).await, ok(201));
    assert_eq!(code(&eu, ("POST", "/admin/regions/eu/drain"), Value::Null).await, not_yours);
    for files in [&eu, &alice] {
        assert_eq!(code(files, ("GET", "/admin/registry"), Value::Null).await, ok(200));
    }
    let theirs = Fleet::new("strangers");
    let stranger = theirs.issue(&Party::operator("prod", "alice").unwrap(), "alice");
    let stranger = Files { ca: alice.ca.clone(), ..stranger };
    assert_eq!(code(&stranger, ("GET", "/admin/registry"), Value::Null).await, None);
}

// A gateway's certificate does not work for a control plane: it is refused at the start, by name,
// and by every client.
#[tokio::test]
async fn a_gateway_is_no_control_plane() {
    let fleet = Fleet::new("impostor");
    fleet.issue(&gateway("eu", "eu-1"), "control");
    let dir = fleet.dir.display();
    let yaml = format!(
        "version: 1\nstore: {dir}/store.redb\nadmin: 127.0.0.1:0\n\
         tls: {{ca: {dir}/ca.crt, certificate: {dir}/control.crt, key: {dir}/control.key}}\n"
    );
    let served = serve(Control::read(&yaml).unwrap(), |_| {}, std::future::pending()).await;
    let error = served.unwrap_err().to_string();
    assert!(
        error.contains("tls.certificate") && error.contains("is not a control plane's"),
        "{error}"
    );
}

// Certificates that are replaced in their files are shown to new connections.
#[tokio::test(start_paused = true)]
async fn certificates_are_exchanged_while_serving() {
    let fleet = Fleet::new("exchange");
    let plane = Party::control("prod", "c-1").unwrap();
    fleet.issue(&plane, "control");
    let alice = fleet.issue(&Party::operator("prod", "alice").unwrap(), "alice");
    let (at, _stop) = fleet.start().await;
    let get = ("GET", "/admin/status");
    assert!(ask(at, &alice, get, Value::Null).await.is_some());
    // Another CA: alice refuses its certificates until she trusts it too.
    let other = Fleet::new("exchange-other");
    other.issue(&plane, "control");
    for file in ["ca.crt", "control.crt", "control.key"] {
        std::fs::copy(other.dir.join(file), fleet.dir.join(file)).unwrap();
    }
    tokio::time::sleep(std::time::Duration::from_secs(5)).await;
    let bob = other.issue(&Party::operator("prod", "bob").unwrap(), "bob");
    assert!(ask(at, &bob, get, Value::Null).await.is_some());
    let alice = Files { ca: bob.ca.clone(), ..alice };
    assert_eq!(ask(at, &alice, get, Value::Null).await, None);
}

// An operator whose certificate is revoked is refused from the next poll on, and its open
// connection ends, including an endless watch; others continue.
#[tokio::test(start_paused = true)]
async fn a_revoked_operator_is_cut_off() {
    let fleet = Fleet::new("revoked");
    fleet.revoke(&[]);
    fleet.issue(&Party::control("prod", "c-1").unwrap(), "control");
    let [alice, bob] =
        ["alice", "bob"].map(|name| fleet.issue(&Party::operator("prod", name).unwrap(), name));
    let (at, _stop) = fleet.start().await;
    let get = ("GET", "/admin/status");
    for files in [&alice, &bob] {
        assert!(ask(at, files, get, Value::Null).await.is_some());
    }
    // The answer of a watch has no end, so it completes when its connection is closed.
    let watch = |files: Files| {
        tokio::spawn(
            async move { ask(at, &files, ("GET", "/admin/watch?from=1"), Value::Null).await },
        )
    };
    let (of_alice, of_bob) = (watch(alice.clone()), watch(bob.clone()));
    tokio::time::sleep(std::time::Duration::from_secs(5)).await;
    assert!(!of_alice.is_finished() && !of_bob.is_finished());
    fleet.revoke(&["alice"]);
    tokio::time::sleep(std::time::Duration::from_secs(5)).await;
    assert!(of_alice.is_finished() && !of_bob.is_finished());
    assert_eq!(ask(at, &alice, get, Value::Null).await, None);
    assert!(ask(at, &bob, get, Value::Null).await.is_some());
}
