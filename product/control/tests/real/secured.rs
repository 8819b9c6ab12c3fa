//! etcd with certificates, and with users.

use meridian_control::Error;
use meridian_control::limits::Limits;
use meridian_control::store::{Change, Keys, Revision, Store, Txn, Watch};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};

use crate::etcd::Cluster;
use crate::stores::of_section;

fn put(key: &str) -> Txn {
    Txn { guards: Vec::new(), changes: vec![Change::put(key, "x")] }
}

/// Writes `ca.crt`, and `server` and `client` with their keys.
fn certificates(dir: &std::path::Path) {
    let write = |name: &str, text: String| std::fs::write(dir.join(name), text).unwrap();
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, "test ca");
    write("ca.crt", params.self_signed(&key).unwrap().pem());
    let issuer = Issuer::new(params, key);
    for name in ["server", "client"] {
        let mut params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        write(&format!("{name}.crt"), params.signed_by(&key, &issuer).unwrap().pem());
        write(&format!("{name}.key"), key.serialize_pem());
    }
}

// Over TLS, with a certificate that etcd asks for. Without it, with an authority that did not issue
// etcd's, and over plain HTTP nothing works, and the error says why.
#[tokio::test]
async fn etcd_with_certificates() {
    let dir = std::env::temp_dir().join(format!("meridian-etcd-tls-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    certificates(&dir);
    let file = |name: &str| dir.join(name).display().to_string();
    let (cert, key, ca) = (file("server.crt"), file("server.key"), file("ca.crt"));
    let arguments =
        ["--cert-file", &cert, "--key-file", &key, "--trusted-ca-file", &ca, "--client-cert-auth"];
    let cluster = Cluster::start_as("https", 1, &arguments);
    let own = format!("certificate: {}, key: {}", file("client.crt"), file("client.key"));
    let with = |tls: &str| of_section(&format!("{}{tls}", cluster.section()), Limits::default());
    let good = with(&format!("  tls: {{ca: {ca}, {own}}}\n"));
    good.commit(put("k")).await.unwrap();
    assert!(good.get("k").await.unwrap().is_some());
    let mut watch = good.watch(&Keys::prefix(""), Revision(1));
    assert_eq!(watch.next().await.unwrap().revision, Revision(2));
    // Whether etcd's alert or the end of the connection arrives first differs.
    let bare = with(&format!("  tls: {{ca: {ca}}}\n")).get("k").await.unwrap_err();
    assert!(matches!(bare, Error::Unavailable(_)), "{bare:?}");
    let other = with(&format!("  tls: {{ca: {cert}, {own}}}\n"));
    let other = other.get("k").await.unwrap_err().to_string();
    assert!(other.contains("ertificate"), "{other}");
    std::fs::remove_dir_all(dir).unwrap();
}

// With users on, one who may write the prefix works, and a wrong password and a foreign prefix are
// refused with the remedy.
#[tokio::test]
async fn etcd_with_users() {
    let cluster = Cluster::start(1, &[]);
    for command in [
        &["user", "add", "root:pw"][..],
        &["user", "grant-role", "root", "root"],
        &["user", "add", "meridian:sesame"],
        &["role", "add", "meridian"],
        &["role", "grant-permission", "meridian", "--prefix=true", "readwrite", "meridian/"],
        &["user", "grant-role", "meridian", "meridian"],
        &["auth", "enable"],
    ] {
        // The role of root exists already in some versions.
        let done = cluster.ctl_all(command);
        assert!(done.is_ok(), "{command:?}: {done:?}");
    }
    let with = |more: &str| of_section(&format!("{}{more}", cluster.section()), Limits::default());
    let good = with("  user: meridian\n  password: sesame\n");
    good.commit(put("k")).await.unwrap();
    let lease = good.grant(std::time::Duration::from_secs(60)).await.unwrap();
    good.keep_alive(lease.id).await.unwrap();
    let mut watch = good.watch(&Keys::prefix(""), Revision(1));
    assert!(watch.next().await.is_ok());
    good.revoke(lease.id).await.unwrap();
    for bad in [
        with(""),
        with("  user: meridian\n  password: open\n"),
        with("  user: meridian\n  password: sesame\n  prefix: other/\n"),
    ] {
        let error = bad.commit(put("k")).await.unwrap_err();
        assert!(matches!(error, Error::Denied(_)), "{error:?}");
        assert!(error.to_string().contains("check etcd.user, its password"), "{error}");
        assert!(!error.to_string().contains("sesame"), "{error}");
    }
}
