//! Two gateways that are peers, with certificates of one authority, and the emulated distance
//! between them.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use bytes::BytesMut;
use meridian_config::{Gateway, Peer};
use meridian_protocol::peer::{Identity, Party};
use rcgen::{
    BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SanType,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until};

use crate::work::{BEAT, PUSH, REGIONS, RTT};

/// A fleet's authority, with a folder for files that is removed with the test.
pub(crate) struct Fleet {
    dir: PathBuf,
    issuer: Issuer<'static, KeyPair>,
    /// A separate loopback address, so that ports are known in advance and free.
    host: Ipv4Addr,
}

static FLEETS: AtomicU8 = AtomicU8::new(1);

impl Fleet {
    pub(crate) fn new() -> Fleet {
        let number = FLEETS.fetch_add(1, Ordering::Relaxed);
        let process = std::process::id();
        let dir = std::env::temp_dir().join(format!("meridian-parity-{number}-{process}"));
        std::fs::create_dir_all(&dir).unwrap();
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        std::fs::write(dir.join("ca.crt"), params.self_signed(&key).unwrap().pem()).unwrap();
        let [.., high, low] = process.to_be_bytes();
        let host = Ipv4Addr::new(127, high.max(1), low, number);
        Fleet { dir, issuer: Issuer::new(params, key), host }
    }

    /// Makes a region's gateway the peer of the others, each at the other end of a slow line.
    pub(crate) async fn connect(&self, region: usize, config: &mut Gateway) {
        let file = |kind: &str| self.dir.join(format!("{}.{kind}", REGIONS[region]));
        let identity = Identity::new("parity", REGIONS[region], "one").unwrap();
        let party = Party::Gateway(identity);
        let names: Vec<String> = party.dns_name().into_iter().collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.subject_alt_names.push(SanType::URI(party.uri().try_into().unwrap()));
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        std::fs::write(file("crt"), certificate.pem()).unwrap();
        std::fs::write(file("key"), key.serialize_pem()).unwrap();
        let text = format!(
            "version: 1\npeers: {{listen: '{}', ca: '{}', certificate: '{}', key: '{}', \
             continent: here, push: {}ms, beat: {}ms, gone: 1000s}}\n",
            self.address(region),
            self.dir.join("ca.crt").display(),
            file("crt").display(),
            file("key").display(),
            PUSH.as_millis(),
            BEAT.as_millis(),
        );
        let mut peers = Gateway::read(&text).unwrap().peers.unwrap();
        for other in (0..REGIONS.len()).filter(|other| *other != region) {
            peers.gateways.push(Peer {
                places: Vec::new(),
                name: "one".to_owned(),
                region: REGIONS[other].to_owned(),
                continent: Some("here".to_owned()),
                address: line(self.address(other)).await.to_string(),
            });
        }
        (config.region, config.peers) = (REGIONS[region].to_owned(), Some(peers));
    }

    fn address(&self, region: usize) -> SocketAddr {
        (self.host, 7000 + region as u16).into()
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

/// An address that leads to `target`, half a round trip away. Its bytes in flight are unbounded, as
/// in the simulator's network.
async fn line(target: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (near, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                sleep(RTT).await;
                let Ok(far) = TcpStream::connect(target).await else { return };
                near.set_nodelay(true).unwrap();
                far.set_nodelay(true).unwrap();
                let ((near_read, near_write), (far_read, far_write)) =
                    (near.into_split(), far.into_split());
                tokio::join!(carry(near_read, far_write), carry(far_read, near_write));
            });
        }
    });
    address
}

/// One direction of a line.
async fn carry(mut from: OwnedReadHalf, mut to: OwnedWriteHalf) {
    let (send, mut arrive) = mpsc::unbounded_channel::<(Instant, BytesMut)>();
    let way: Duration = RTT / 2;
    let read = async move {
        let mut bytes = BytesMut::with_capacity(64 << 10);
        while from.read_buf(&mut bytes).await.is_ok_and(|n| n > 0) {
            if send.send((Instant::now() + way, bytes.split())).is_err() {
                return;
            }
            bytes.reserve(64 << 10);
        }
    };
    let write = async move {
        while let Some((at, bytes)) = arrive.recv().await {
            sleep_until(at).await;
            if to.write_all(&bytes).await.is_err() {
                return;
            }
        }
    };
    tokio::join!(read, write);
}
