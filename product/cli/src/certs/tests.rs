use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rcgen::{ExtendedKeyUsagePurpose, KeyPair};
use rustls::client::WebPkiServerVerifier;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::time_provider::TimeProvider;
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection};

use super::rotate::{Rotate, Step, rotate};
use super::*;

/// A folder that is removed at the end of its test.
struct Dir(PathBuf);

impl Dir {
    fn new(name: &str) -> Dir {
        let path =
            std::env::temp_dir().join(format!("meridian-certs-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        Dir(path)
    }

    fn init(&self, fleet: &str) {
        init(&self.asked(fleet), now()).expect("makes an authority");
    }

    fn asked(&self, fleet: &str) -> Init {
        Init { dir: self.0.clone(), fleet: fleet.to_owned(), days: 3650, force: false }
    }

    fn issue(&self, gateway: &str, region: &str) {
        issue(&self.wanted(gateway, region), now()).expect("issues");
    }

    fn wanted(&self, gateway: &str, region: &str) -> Issue {
        Issue {
            dir: self.0.clone(),
            whose: Whose { gateway: Some(gateway.to_owned()), control: None, operator: None },
            region: Some(region.to_owned()),
            dns: vec![format!("{gateway}.example.org")],
            ip: vec!["127.0.0.1".parse().expect("is one"), "::1".parse().expect("is one")],
            days: 90,
            force: false,
        }
    }

    fn rotate(&self, ca: Option<Step>, at: SystemTime) -> anyhow::Result<String> {
        rotate(&Rotate { dir: self.0.clone(), within: 30, days: None, ca }, at)
    }

    fn party(&self, name: &str) -> Files {
        let folder = Folder::at(&self.0);
        Files {
            trust: fs::read(folder.bundle_path()).expect("is there"),
            crt: fs::read(folder.path(&seat(name), "crt")).expect("is there"),
            key: fs::read(folder.path(&seat(name), "key")).expect("is there"),
        }
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The seat of a gateway.
fn seat(name: &str) -> Seat {
    Seat::of(&Party::Gateway(Identity::new("prod", "any", name).expect("are labels")))
}

fn now() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000)
}

/// The files of a gateway.
#[derive(Clone)]
struct Files {
    trust: Vec<u8>,
    crt: Vec<u8>,
    key: Vec<u8>,
}

impl Files {
    fn chain(&self) -> Vec<CertificateDer<'static>> {
        CertificateDer::pem_slice_iter(&self.crt).map(|c| c.expect("is PEM")).collect()
    }

    fn key(&self) -> PrivateKeyDer<'static> {
        PrivateKeyDer::from_pem_slice(&self.key).expect("is a key")
    }

    fn roots(&self) -> Arc<RootCertStore> {
        let mut roots = RootCertStore::empty();
        for cert in CertificateDer::pem_slice_iter(&self.trust) {
            roots.add(cert.expect("is PEM")).expect("is an authority");
        }
        Arc::new(roots)
    }
}

#[derive(Debug)]
struct At(SystemTime);

impl TimeProvider for At {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(self.0.duration_since(SystemTime::UNIX_EPOCH).ok()?))
    }
}

/// Makes a TLS handshake in memory; returns the error of either side.
fn meet(client: &Files, server: &Files, name: &str, at: SystemTime) -> Result<(), rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let clients = WebPkiClientVerifier::builder_with_provider(server.roots(), provider.clone());
    let accepting = ServerConfig::builder_with_details(provider.clone(), Arc::new(At(at)))
        .with_safe_default_protocol_versions()?
        .with_client_cert_verifier(clients.build().expect("has authorities"))
        .with_single_cert(server.chain(), server.key())?;
    let servers = WebPkiServerVerifier::builder_with_provider(client.roots(), provider.clone());
    let dialling = ClientConfig::builder_with_details(provider, Arc::new(At(at)))
        .with_safe_default_protocol_versions()?
        .with_webpki_verifier(servers.build().expect("has authorities"))
        .with_client_auth_cert(client.chain(), client.key())?;
    let name = ServerName::try_from(name.to_owned()).expect("is a name");
    let mut dialling = ClientConnection::new(Arc::new(dialling), name)?;
    let mut accepting = ServerConnection::new(Arc::new(accepting))?;
    while dialling.is_handshaking() || accepting.is_handshaking() {
        let mut bytes = Vec::new();
        dialling.write_tls(&mut bytes).expect("writes to memory");
        accepting.read_tls(&mut bytes.as_slice()).expect("reads from memory");
        accepting.process_new_packets()?;
        let mut bytes = Vec::new();
        accepting.write_tls(&mut bytes).expect("writes to memory");
        dialling.read_tls(&mut bytes.as_slice()).expect("reads from memory");
        dialling.process_new_packets()?;
    }
    Ok(())
}

fn refused(result: Result<(), rustls::Error>) -> String {
    result.expect_err("is to be refused").to_string()
}

// Two gateways of a fleet accept each other under their fleet names and under their further names.
// A gateway is refused under the name of another one.
#[test]
fn gateways_of_a_fleet_accept_each_other() {
    let dir = Dir::new("accept");
    dir.init("prod");
    dir.issue("us-1", "us");
    dir.issue("eu-1", "eu");
    let (us, eu) = (dir.party("us-1"), dir.party("eu-1"));
    for name in ["eu-1.eu.prod", "eu-1.example.org", "127.0.0.1", "::1"] {
        assert_eq!(meet(&us, &eu, name, now()), Ok(()), "{name}");
    }
    assert_eq!(meet(&eu, &us, "us-1.us.prod", now()), Ok(()));
    assert!(refused(meet(&us, &eu, "us-1.us.prod", now())).contains("not valid for name"));
}

// Both sides refuse a certificate of another fleet's authority, although its names are right.
#[test]
fn strangers_are_refused() {
    let (ours, theirs) = (Dir::new("ours"), Dir::new("theirs"));
    for dir in [&ours, &theirs] {
        dir.init("prod");
        dir.issue("us-1", "us");
        dir.issue("eu-1", "eu");
    }
    let (us, stranger) = (ours.party("us-1"), theirs.party("eu-1"));
    // One side at a time trusts the other's authority, so that only the other side refuses.
    let naive =
        |party: &Files, other: &Files| Files { trust: other.trust.clone(), ..party.clone() };
    let as_client = refused(meet(&naive(&stranger, &us), &us, "us-1.us.prod", now()));
    assert!(as_client.contains("certificate"), "{as_client}");
    let as_server = refused(meet(&us, &naive(&stranger, &us), "eu-1.eu.prod", now()));
    assert!(as_server.contains("certificate"), "{as_server}");
}

// A certificate is valid from an hour before it was issued, for slow clocks, until it expires.
#[test]
fn expired_ones_are_refused() {
    let dir = Dir::new("expired");
    dir.init("prod");
    dir.issue("us-1", "us");
    dir.issue("eu-1", "eu");
    let (us, eu) = (dir.party("us-1"), dir.party("eu-1"));
    let minute = Duration::from_secs(60);
    let end = now() + days(90);
    for at in [now() - 59 * minute, end - minute] {
        assert_eq!(meet(&us, &eu, "eu-1.eu.prod", at), Ok(()));
    }
    for at in [now() - 61 * minute, end + minute] {
        let error = refused(meet(&us, &eu, "eu-1.eu.prod", at)).to_lowercase();
        assert!(error.contains("expired") || error.contains("not valid yet"), "{error}");
    }
}

// A certificate for servers only is refused from a client.
#[test]
fn a_servers_certificate_is_no_clients() {
    let dir = Dir::new("usage");
    dir.init("prod");
    dir.issue("us-1", "us");
    let authority = Folder::at(&dir.0).authority().expect("is there");
    let wish = Wish {
        party: Party::Gateway(Identity::new("prod", "eu", "eu-1").expect("are labels")),
        dns: vec![],
        ips: vec![],
        lasts: days(90),
    };
    let mut params = wish.params().expect("can be asked for");
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.not_before = now().into();
    let key = KeyPair::generate().expect("makes a key");
    let crt = params.signed_by(&key, &authority.issuer).expect("signs").pem().into_bytes();
    let us = dir.party("us-1");
    let eu = Files { crt, key: key.serialize_pem().into_bytes(), ..us.clone() };
    assert_eq!(meet(&us, &eu, "eu-1.eu.prod", now()), Ok(()));
    let error = refused(meet(&eu, &us, "us-1.us.prod", now()));
    assert!(error.contains("client authentication"), "{error}");
}

// Existing files are replaced only with `--force`, and only their owner can read them.
#[test]
fn files_are_private_and_kept() {
    let dir = Dir::new("files");
    dir.init("prod");
    dir.issue("us-1", "us");
    let before = dir.party("us-1");
    let error = init(&dir.asked("prod"), now()).expect_err("is there").to_string();
    assert!(error.contains("ca.crt exists already; use --force"), "{error}");
    let error = issue(&dir.wanted("us-1", "us"), now()).expect_err("is there").to_string();
    assert!(error.contains("us-1.crt exists already; use --force"), "{error}");
    assert_eq!(dir.party("us-1").key, before.key);
    issue(&Issue { force: true, ..dir.wanted("us-1", "us") }, now()).expect("is asked to");
    assert_ne!(dir.party("us-1").key, before.key);
    for folder in [dir.0.clone(), dir.0.join("gateways")] {
        for entry in fs::read_dir(folder).expect("is there") {
            let entry = entry.expect("is readable");
            let mode = entry.metadata().expect("is readable").permissions().mode() & 0o777;
            let private = if entry.path().is_dir() { 0o700 } else { 0o600 };
            assert_eq!(mode, private, "{}", entry.path().display());
        }
    }
}

// Every error names its remedy.
#[test]
fn errors_tell_the_remedy() {
    let dir = Dir::new("errors");
    let says = |result: anyhow::Result<String>, part: &str| {
        let error = format!("{:#}", result.expect_err("cannot be done"));
        assert!(error.contains(part), "`{part}` is missing in: {error}");
    };
    says(issue(&dir.wanted("us-1", "us"), now()), "make one with `meridian certs init`");
    says(init(&dir.asked("Prod"), now()), "--fleet: `Prod` is not a name");
    dir.init("prod");
    says(issue(&dir.wanted("us/1", "us"), now()), "gateway: `us/1` is not a name");
    let odd = Issue { dns: vec!["two words".to_owned()], ..dir.wanted("us-1", "us") };
    says(issue(&odd, now()), "--dns: `two words` is not a DNS name");
    says(dir.rotate(Some(Step::Switch), now()), "run --ca add first");
    says(dir.rotate(Some(Step::Drop), now()), "is in use");
    let shown = |path: &Path| show(&Show { files: vec![path.to_owned()] }, now());
    says(shown(&dir.0.join("ca-1.key")), "contains a PRIVATE KEY");
    says(shown(&dir.0.join("none.crt")), "cannot read");
    fs::write(dir.0.join("ca-1.key"), "no key").expect("writes");
    says(issue(&dir.wanted("us-1", "us"), now()), "ca-1.key: is not a private key");
}

// `show` prints the gateway, its region, the uses of its certificate and the days until it expires.
#[test]
fn shows_what_a_certificate_says() {
    let dir = Dir::new("show");
    dir.init("prod");
    dir.issue("us-1", "us");
    let crt = Folder::at(&dir.0).path(&seat("us-1"), "crt");
    let text = |at| show(&Show { files: vec![crt.clone()] }, at).expect("is readable");
    let said = text(now());
    for part in [
        "spiffe://prod/region/us/gateway/us-1",
        "us-1.us.prod, us-1.example.org, 127.0.0.1, ::1",
        "Meridian CA 1",
        "(90 days left)",
        "server yes, client yes",
    ] {
        assert!(said.contains(part), "`{part}` is missing in: {said}");
    }
    assert!(text(now() + days(91)).contains("(expired)"));
    let ca = show(&Show { files: vec![dir.0.join("ca.crt")] }, now()).expect("is readable");
    assert!(ca.contains("authority 1 of fleet prod"), "{ca}");
}

// A certificate that expires soon is renewed with its names and lifetime; others stay.
#[test]
fn renews_what_runs_out() {
    let dir = Dir::new("renew");
    dir.init("prod");
    dir.issue("us-1", "us");
    let before = dir.party("us-1");
    let said = dir.rotate(None, now() + days(59)).expect("looks");
    assert!(said.contains("no certificate expires"), "{said}");
    assert_eq!(dir.party("us-1").crt, before.crt);
    let later = now() + days(61);
    assert!(dir.rotate(None, later).expect("renews").contains("renewed us/us-1"));
    let after = dir.party("us-1");
    assert_ne!(after.key, before.key);
    let end = now() + days(61 + 89);
    assert_eq!(meet(&after, &after, "us-1.example.org", end), Ok(()));
    assert_eq!(meet(&before, &after, "us-1.us.prod", later), Ok(()));

    // A key without its certificate, which a crash between two writes leaves, is replaced.
    fs::write(Folder::at(&dir.0).path(&seat("us-1"), "key"), &before.key).expect("writes");
    assert!(dir.rotate(None, later).expect("renews").contains("renewed us/us-1"));
    let mended = dir.party("us-1");
    assert_eq!(meet(&mended, &after, "us-1.us.prod", later), Ok(()));

    // No certificate is valid longer than its authority, whose own expiry is announced in time.
    let late = now() + days(3640);
    let said = dir.rotate(None, late).expect("renews");
    assert!(said.contains("the authority itself expires"), "{said}");
    let last = Facts::all(&dir.party("us-1").crt).expect("is readable").swap_remove(0);
    assert_eq!(last.until, now() + days(3650));
}

// At every step of the exchange, gateways with the new files and gateways with the old ones accept
// each other. At the end, certificates of the old authority are refused.
#[test]
fn the_authority_is_exchanged_without_a_gap() {
    let dir = Dir::new("exchange");
    dir.init("prod");
    dir.issue("us-1", "us");
    dir.issue("eu-1", "eu");
    let mut states = vec![(dir.party("us-1"), dir.party("eu-1"))];
    for step in [Step::Add, Step::Switch, Step::Drop] {
        dir.rotate(Some(step), now()).expect("succeeds");
        states.push((dir.party("us-1"), dir.party("eu-1")));
        let two = &states[states.len() - 2..];
        for (us, eu) in [(&two[0].0, &two[1].1), (&two[1].0, &two[0].1), (&two[1].0, &two[1].1)] {
            assert_eq!(meet(us, eu, "eu-1.eu.prod", now()), Ok(()), "{step:?}");
            assert_eq!(meet(eu, us, "us-1.us.prod", now()), Ok(()), "{step:?}");
        }
    }
    let (first, last) = (&states[0], &states[3]);
    assert!(refused(meet(&first.0, &last.1, "eu-1.eu.prod", now())).contains("certificate"));
    // Steps out of order are refused.
    dir.rotate(Some(Step::Add), now()).expect("begins another");
    assert!(dir.rotate(Some(Step::Add), now()).is_err());
    let error = dir.rotate(Some(Step::Drop), now()).expect_err("is too early").to_string();
    assert!(error.contains("--ca switch first"), "{error}");
}

// An exchange that was interrupted before the new authority was trusted starts again, with a new
// key and a revocation list signed with that key.
#[test]
fn an_exchange_begins_again() {
    let dir = Dir::new("again");
    dir.init("prod");
    dir.issue("us-1", "us");
    dir.issue("eu-1", "eu");
    let bundle = fs::read(dir.0.join("ca.crt")).expect("is there");
    dir.rotate(Some(Step::Add), now()).expect("begins");
    fs::write(dir.0.join("ca.crt"), bundle).expect("the old bundle");
    for step in [Step::Add, Step::Switch] {
        dir.rotate(Some(step), now()).expect("succeeds");
    }
    let (ca, crl) = (dir.0.join("ca.crt"), dir.0.join("ca.crl"));
    let seat = |kind: &str| dir.0.join(format!("gateways/us-1.{kind}"));
    let files = meridian_tls::Files {
        section: "test".into(),
        ca: Some(ca),
        crl: Some(crl),
        certificate: seat("crt"),
        key: seat("key"),
    };
    files.read().expect("every list is signed with its authority's key");
}

// `revoke` revokes every certificate of a name, renewed ones too. They are not renewed any more,
// and are shown as revoked. The list of a removed authority is removed too.
#[test]
fn revokes_all_that_a_name_has() {
    let dir = Dir::new("revoke");
    dir.init("prod");
    dir.issue("us-1", "us");
    dir.issue("eu-1", "eu");
    let first = Facts::all(&dir.party("us-1").crt).expect("is readable").swap_remove(0);
    let later = now() + days(61);
    dir.rotate(None, later).expect("renews");
    let second = Facts::all(&dir.party("us-1").crt).expect("is readable").swap_remove(0);
    let other = Facts::all(&dir.party("eu-1").crt).expect("is readable").swap_remove(0);
    assert_ne!(first.serial, second.serial);
    let folder = Folder::at(&dir.0);
    assert_eq!(folder.lists().expect("is there")[0].entries.len(), 0);
    let revoke = |name: &str| {
        let args = revoked::Revoke { dir: dir.0.clone(), names: vec![name.to_owned()] };
        revoked::revoke(&args, later)
    };
    let said = revoke("us-1").expect("revokes");
    assert!(said.contains("gateways/us-1: its 2 certificates are revoked"), "{said}");
    let lists = folder.lists().expect("is there");
    for (facts, is_revoked) in [(&first, true), (&second, true), (&other, false)] {
        assert_eq!(revoked::since(&lists, facts), is_revoked.then_some(later));
    }
    let said = revoke("gateways/us-1").expect("is known");
    assert!(said.contains("is revoked already"), "{said}");
    assert!(revoke("eu-1").expect("revokes").contains("eu-1"));
    let error = revoke("asia-1").expect_err("is not known").to_string();
    assert!(error.contains("gateways/eu-1, gateways/us-1"), "{error}");
    let shown = |file: PathBuf| show(&Show { files: vec![file] }, later).expect("is readable");
    assert!(shown(folder.path(&seat("us-1"), "crt")).contains("revoked  since 2027-"));
    let said = dir.rotate(None, later + days(80)).expect("looks");
    assert!(said.contains("gateways/us-1 is revoked, so it is not renewed"), "{said}");

    // Revoked certificates do not stop an exchange, which removes the old authority's list.
    for (step, lists) in [(Step::Add, 2), (Step::Switch, 2), (Step::Drop, 1)] {
        dir.rotate(Some(step), later).expect("succeeds");
        assert_eq!(folder.lists().expect("is there").len(), lists, "{step:?}");
    }
    assert!(folder.lists().expect("is there")[0].entries.is_empty());
}
