//! Replicas with https, and keys of their own.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use meridian_config::{Credentials, Gateway as Config};
use meridian_protocol::admin::AddReplica;
use meridian_tls::{Files, mutual_server, server};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use crate::common::{Region, Replica, call, chat, config, eventually};

/// A certificate authority, in a folder that is deleted after the test.
struct Authority {
    dir: PathBuf,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new(name: &str) -> Authority {
        let dir = std::env::temp_dir().join(format!("meridian-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        params.distinguished_name.push(DnType::CommonName, name);
        std::fs::write(dir.join("ca.crt"), params.self_signed(&key).unwrap().pem()).unwrap();
        Authority { dir, issuer: Issuer::new(params, key) }
    }

    fn ca(&self) -> PathBuf {
        self.dir.join("ca.crt")
    }

    /// Issues a certificate for `host`, to servers or to clients, which holds until that year.
    fn issue(&self, host: &str, usage: ExtendedKeyUsagePurpose, until: i32) -> Files {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec![host.to_owned()]).unwrap();
        params.extended_key_usages = vec![usage];
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(until, 1, 1);
        let crt = params.signed_by(&key, &self.issuer).unwrap();
        let file = |kind: &str| self.dir.join(format!("{host}.{kind}"));
        let (certificate, key_file) = (file("crt"), file("key"));
        std::fs::write(&certificate, crt.pem()).unwrap();
        std::fs::write(&key_file, key.serialize_pem()).unwrap();
        let (section, ca) = ("test".into(), Some(self.ca()));
        Files { section, ca, crl: None, certificate, key: key_file }
    }

    fn server(&self, host: &str) -> Files {
        self.issue(host, ExtendedKeyUsagePurpose::ServerAuth, 2100)
    }

    /// A server of this machine, by its address.
    async fn front(&self, replica: &Replica) -> Front {
        let files = self.server("127.0.0.1");
        Front::start(server(&files, files.read().unwrap(), &[b"http/1.1"]).unwrap(), replica).await
    }
}

impl Drop for Authority {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

/// Ends TLS in front of a replica.
struct Front {
    url: String,
    accepted: Arc<AtomicUsize>,
}

impl Front {
    async fn start(tls: rustls::ServerConfig, replica: &Replica) -> Front {
        let acceptor = TlsAcceptor::from(Arc::new(tls));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://{}", listener.local_addr().unwrap());
        let behind = replica.url().trim_start_matches("http://").to_owned();
        let accepted = Arc::new(AtomicUsize::new(0));
        let count = accepted.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                count.fetch_add(1, Ordering::Relaxed);
                let (acceptor, behind) = (acceptor.clone(), behind.clone());
                tokio::spawn(async move {
                    let Ok(mut outer) = acceptor.accept(stream).await else { return };
                    let mut inner = TcpStream::connect(behind).await.unwrap();
                    let _ = tokio::io::copy_bidirectional(&mut outer, &mut inner).await;
                });
            }
        });
        Front { url, accepted }
    }
}

/// A server without TLS, which refuses the start of a handshake as any HTTP server does; its URL with
/// https.
async fn refusing() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.read(&mut [0; 4096]).await;
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
        }
    });
    url
}

/// A configuration with replicas that have credentials.
fn with(replicas: &[(&str, &str)], credentials: &[(&str, Credentials)]) -> Config {
    let mut config = config(&[]);
    for (url, name) in replicas {
        let name = (!name.is_empty()).then(|| (*name).to_owned());
        config.replicas.push(AddReplica { credentials: name, ..AddReplica::at(*url) });
    }
    let credentials = credentials.iter().map(|(name, one)| ((*name).to_owned(), one.clone()));
    config.credentials.extend(credentials);
    config
}

fn trusts(ca: &Path) -> Credentials {
    Credentials { ca: Some(ca.to_owned()), ..Credentials::default() }
}

fn sends(key: &str) -> Credentials {
    Credentials { engine_key: Some(key.into()), ..Credentials::default() }
}

/// Why the only replica does not join.
async fn trouble(config: Config, part: &str) {
    let region = Region::start(config).await;
    eventually(part, async || {
        let said = region.status().await.replicas[0].trouble.clone()?;
        said.contains(part).then_some(())
    })
    .await;
    assert_eq!(call(region.listen, chat("hi")).await.status, 503);
}

// A replica with https serves, and gets its own key; one without credentials gets `engine_key`.
// Neither gets the client's, and no page shows a key. Connections with TLS serve many requests.
#[tokio::test(start_paused = true)]
async fn https_and_own_keys() {
    const REQUESTS: usize = 60;
    let (a, b) = (Replica::start().await, Replica::start().await);
    let authority = Authority::new("https");
    let front = authority.front(&a).await;
    let lab = Credentials { ca: Some(authority.ca()), ..sends("sk-lab") };
    let mut config = with(&[(&front.url, "lab"), (&b.url(), "")], &[("lab", lab)]);
    config.engine_key = Some("sk-all".into());
    let region = Region::start(config).await;
    region.until("both are up", |s| s.replicas.iter().all(|r| r.state == "up")).await;
    let mut served = std::collections::BTreeSet::new();
    for n in 0..REQUESTS {
        let answer = call(region.listen, chat(&format!("question {n}"))).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        served.insert(answer.header("x-meridian-replica").to_owned());
    }
    assert_eq!(served.len(), 2, "both serve");
    assert_eq!(a.last().header("authorization"), Some("Bearer sk-lab"));
    assert_eq!(b.last().header("authorization"), Some("Bearer sk-all"));
    let shown = region.admin("GET", "/admin/config", "").await;
    assert!(!shown.text().contains("sk-"), "{}", shown.text());
    let accepted = front.accepted.load(Ordering::Relaxed);
    assert!(accepted < REQUESTS / 4, "{accepted} connections");
}

// A certificate from another authority, one for another name, an expired one, and a port without
// TLS: the status page says which it is, and the remedy.
#[tokio::test(start_paused = true)]
async fn why_https_fails() {
    let replica = Replica::start().await;
    let (authority, other) = (Authority::new("own"), Authority::new("other"));
    let front = authority.front(&replica).await;
    let of = |url: &str, authority: &Authority| {
        with(&[(url, "lab")], &[("lab", trusts(&authority.ca()))])
    };
    trouble(of(&front.url, &other), "set `ca` of its `credentials`").await;
    let with_files = async |files: Files| {
        let tls = server(&files, files.read().unwrap(), &[]).unwrap();
        Front::start(tls, &replica).await.url
    };
    let named = with_files(authority.server("gpu.test")).await;
    trouble(of(&named, &authority), "write a name of its certificate in `url`").await;
    let server_use = ExtendedKeyUsagePurpose::ServerAuth;
    let old = with_files(authority.issue("127.0.0.1", server_use, 2021)).await;
    trouble(of(&old, &authority), "renew its certificate, or correct the clocks").await;
    let plain = refusing().await;
    trouble(of(&plain, &authority), "write http:// in `url` if the port has no TLS").await;
}

// A replica that requires a certificate gets the one of its credentials. Without one, and with one
// from another authority, the status page says what it requires.
#[tokio::test(start_paused = true)]
async fn a_certificate_to_show() {
    let replica = Replica::start().await;
    let (authority, other) = (Authority::new("mutual"), Authority::new("strange"));
    let files = authority.server("127.0.0.1");
    let tls = mutual_server(&files, files.read().unwrap(), &[b"http/1.1"]).unwrap();
    let front = Front::start(tls, &replica).await;
    let of = |own: Option<&Files>| {
        let lab = Credentials {
            certificate: own.map(|own| own.certificate.clone()),
            key: own.map(|own| own.key.clone()),
            ..trusts(&authority.ca())
        };
        with(&[(&front.url, "lab")], &[("lab", lab)])
    };
    trouble(of(None), "set `certificate` and `key` of its `credentials`").await;
    let client_use = ExtendedKeyUsagePurpose::ClientAuth;
    let strange = other.issue("gateway", client_use.clone(), 2100);
    trouble(of(Some(&strange)), "it refuses this gateway's certificate").await;
    let own = authority.issue("gateway", client_use, 2100);
    let region = Region::start(of(Some(&own))).await;
    region.until("it is up", |s| s.replicas[0].state == "up").await;
    assert_eq!(call(region.listen, chat("hi")).await.status, 200);
}

// A new certificate of the replica is accepted once its CA's file has changed, without a restart.
#[tokio::test(start_paused = true)]
async fn a_new_ca() {
    let replica = Replica::start().await;
    let (trusted, authority) = (Authority::new("old"), Authority::new("new"));
    let front = authority.front(&replica).await;
    let ca = trusted.ca();
    let region = Region::start(with(&[(&front.url, "lab")], &[("lab", trusts(&ca))])).await;
    eventually("it is refused", async || region.status().await.replicas[0].trouble.clone()).await;
    std::fs::copy(authority.ca(), &ca).unwrap();
    region.until("it is up", |s| s.replicas[0].state == "up").await;
    assert_eq!(call(region.listen, chat("hi")).await.status, 200);
}

// A replica of the admin port may name credentials, and not ones that are not there.
#[tokio::test(start_paused = true)]
async fn credentials_by_name() {
    let replica = Replica::start().await;
    let region = Region::start(with(&[], &[("lab", sends("sk-lab"))])).await;
    let add = |name: &str| format!(r#"{{"url":"{}","credentials":"{name}"}}"#, replica.url());
    let answer = region.admin("POST", "/admin/replicas", &add("nowhere")).await;
    assert_eq!(answer.status, 400);
    let says = "credentials: `nowhere` is not in the section `credentials`";
    assert!(answer.text().contains(says), "{}", answer.text());
    assert_eq!(region.admin("POST", "/admin/replicas", &add("lab")).await.status, 201);
    region.until("it is up", |s| s.replicas.iter().any(|r| r.state == "up")).await;
    assert_eq!(call(region.listen, chat("hi")).await.status, 200);
    assert_eq!(replica.last().header("authorization"), Some("Bearer sk-lab"));
}
