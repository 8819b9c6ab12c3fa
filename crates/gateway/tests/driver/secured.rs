//! Replicas with https, and keys of their own.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use meridian_tls::{Files, server};
use meridian_wire::admin::AddReplica;
use meridian_wire::config::{Credentials, Gateway as Config};
use rcgen::{CertificateParams, KeyPair};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use crate::common::{Region, Replica, call, chat, config, eventually};

/// A folder with a replica's certificate, which is its own CA; deleted after the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str, host: &str) -> Folder {
        let dir = std::env::temp_dir().join(format!("meridian-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let folder = Folder(dir);
        folder.certify(host);
        folder
    }

    fn certify(&self, host: &str) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![host.to_owned()]).unwrap();
        let crt = params.self_signed(&key).unwrap();
        std::fs::write(self.crt(), crt.pem()).unwrap();
        std::fs::write(self.0.join("key"), key.serialize_pem()).unwrap();
    }

    fn crt(&self) -> PathBuf {
        self.0.join("crt")
    }

    /// Ends TLS in front of a replica; returns the URL.
    async fn front(&self, replica: &Replica) -> String {
        let files = Files {
            section: "test".into(),
            ca: None,
            crl: None,
            certificate: self.crt(),
            key: self.0.join("key"),
        };
        let tls = server(&files, files.read().unwrap(), &[b"http/1.1"]).unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(tls));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://{}", listener.local_addr().unwrap());
        let behind = replica.url().trim_start_matches("http://").to_owned();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, behind) = (acceptor.clone(), behind.clone());
                tokio::spawn(async move {
                    let Ok(mut outer) = acceptor.accept(stream).await else { return };
                    let mut inner = TcpStream::connect(behind).await.unwrap();
                    let _ = tokio::io::copy_bidirectional(&mut outer, &mut inner).await;
                });
            }
        });
        url
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A configuration with replicas that have credentials.
fn with(replicas: &[(&str, &str)], credentials: &[(&str, Option<&Path>, Option<&str>)]) -> Config {
    let mut config = config(&[]);
    for (url, name) in replicas {
        let name = (!name.is_empty()).then(|| (*name).to_owned());
        config.replicas.push(AddReplica { credentials: name, ..AddReplica::at(*url) });
    }
    for (name, ca, key) in credentials {
        let (ca, key) = (ca.map(Path::to_owned), key.map(str::to_owned));
        config.credentials.insert((*name).to_owned(), Credentials { ca, key });
    }
    config
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

// A replica with https serves requests over one connection after another, and gets its own key; one
// without credentials gets `engine_key`. Neither gets the client's.
#[tokio::test]
async fn https_and_own_keys() {
    let (a, b) = (Replica::start().await, Replica::start().await);
    let folder = Folder::new("https", "127.0.0.1");
    let url = folder.front(&a).await;
    let mut config =
        with(&[(&url, "lab"), (&b.url(), "")], &[("lab", Some(&folder.crt()), Some("sk-lab"))]);
    config.engine_key = Some("sk-all".to_owned());
    let region = Region::start(config).await;
    region.until("both are up", |s| s.replicas.iter().all(|r| r.state == "up")).await;
    let mut served = std::collections::BTreeSet::new();
    for n in 0..8 {
        let answer = call(region.listen, chat(&format!("question {n}"))).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        served.insert(answer.header("x-meridian-replica").to_owned());
    }
    assert_eq!(served.len(), 2, "both serve");
    assert_eq!(a.last().header("authorization"), Some("Bearer sk-lab"));
    assert_eq!(b.last().header("authorization"), Some("Bearer sk-all"));
    let shown = region.admin("GET", "/admin/config", "").await;
    assert!(!shown.text().contains("sk-"), "{}", shown.text());
}

// A certificate that is not trusted, one for another name, and a port without TLS: the status page
// says which it is, and the remedy.
#[tokio::test]
async fn why_https_fails() {
    let replica = Replica::start().await;
    let (folder, other) = (Folder::new("own", "127.0.0.1"), Folder::new("other", "127.0.0.1"));
    let named = Folder::new("named", "gpu.test");
    let url = folder.front(&replica).await;
    let ca = other.crt();
    trouble(with(&[(&url, "lab")], &[("lab", Some(&ca), None)]), "set `ca` in its `credentials`")
        .await;
    let url = named.front(&replica).await;
    let ca = named.crt();
    trouble(with(&[(&url, "lab")], &[("lab", Some(&ca), None)]), "use a name of its certificate")
        .await;
    let url = replica.url().replace("http://", "https://");
    trouble(with(&[(&url, "lab")], &[("lab", Some(&ca), None)]), "write http:// if it has no TLS")
        .await;
}

// A new certificate of the replica is accepted once its CA's file has changed, without a restart.
#[tokio::test]
async fn a_new_ca() {
    let replica = Replica::start().await;
    let (trusted, folder) = (Folder::new("old", "127.0.0.1"), Folder::new("new", "127.0.0.1"));
    let url = folder.front(&replica).await;
    let ca = trusted.crt();
    let region = Region::start(with(&[(&url, "lab")], &[("lab", Some(&ca), None)])).await;
    eventually("it is refused", async || region.status().await.replicas[0].trouble.clone()).await;
    std::fs::copy(folder.crt(), &ca).unwrap();
    region.until("it is up", |s| s.replicas[0].state == "up").await;
    assert_eq!(call(region.listen, chat("hi")).await.status, 200);
}

// A replica of the admin port may name credentials, and not ones that are not there.
#[tokio::test]
async fn credentials_by_name() {
    let replica = Replica::start().await;
    let region = Region::start(with(&[], &[("lab", None, Some("sk-lab"))])).await;
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
