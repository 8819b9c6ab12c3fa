//! Fleets of gateways with certificates in the form that `meridian certs` makes.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU8, Ordering};

use meridian_config::{Gateway as Config, Peer, Peers};
use meridian_protocol::peer::{Identity, Party};
use meridian_tls::Files;
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, ExtendedKeyUsagePurpose,
    IsCa, Issuer, KeyIdMethod, KeyPair, KeyUsagePurpose, RevokedCertParams, SanType, SerialNumber,
    date_time_ymd,
};

use super::{Replica, config};

/// A fleet's CA, and a folder for the files of its gateways that is deleted after the test.
pub(crate) struct Fleet {
    name: &'static str,
    dir: PathBuf,
    issuer: Issuer<'static, KeyPair>,
    /// A loopback address for this test, so that ports are known in advance and free.
    host: Ipv4Addr,
}

static FLEETS: AtomicU8 = AtomicU8::new(1);

impl Fleet {
    pub(crate) fn new(name: &'static str) -> Fleet {
        let number = FLEETS.fetch_add(1, Ordering::Relaxed);
        let [.., high, low] = std::process::id().to_be_bytes();
        let dir = format!("meridian-peers-{name}-{number}-{}", std::process::id());
        let dir = std::env::temp_dir().join(dir);
        std::fs::create_dir_all(&dir).unwrap();
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let ca = params.self_signed(&key).unwrap();
        std::fs::write(dir.join("ca.crt"), ca.pem()).unwrap();
        let issuer = Issuer::new(params, key);
        Fleet { name, dir, issuer, host: Ipv4Addr::new(127, high.max(1), low, number) }
    }

    pub(crate) fn identity(&self, region: &str) -> Identity {
        Identity::new(self.name, region, &format!("{region}-1")).unwrap()
    }

    /// The peer address of a region's gateway.
    pub(crate) fn address(&self, port: u16) -> SocketAddr {
        (self.host, port).into()
    }

    /// The CA's certificate.
    pub(crate) fn ca(&self) -> PathBuf {
        self.dir.join("ca.crt")
    }

    /// Issues a certificate of this fleet, in files of the given name.
    pub(crate) fn issue(&self, party: &Party, name: &str) -> Files {
        let key = KeyPair::generate().unwrap();
        let names: Vec<String> = party.dns_name().into_iter().collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.subject_alt_names.push(SanType::URI(party.uri().try_into().unwrap()));
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        params.serial_number = Some(serial(name));
        let crt = params.signed_by(&key, &self.issuer).unwrap();
        let files = self.files(name);
        std::fs::write(&files.certificate, crt.pem()).unwrap();
        std::fs::write(&files.key, key.serialize_pem()).unwrap();
        files
    }

    /// The files of an issued certificate.
    pub(crate) fn files(&self, name: &str) -> Files {
        let file = |kind: &str| self.dir.join(format!("{name}.{kind}"));
        let (certificate, key) = (file("crt"), file("key"));
        Files { section: "test".into(), ca: Some(self.ca()), crl: None, certificate, key }
    }

    /// The configuration of a region's gateway that follows no peer yet.
    pub(crate) fn gateway(&self, region: &str, port: u16, replicas: &[&Replica]) -> Config {
        self.gateway_of(&self.identity(region), region, port, replicas)
    }

    /// The same of a gateway of this name in its region, with files of the name `file`.
    pub(crate) fn gateway_of(
        &self,
        identity: &Identity,
        file: &str,
        port: u16,
        replicas: &[&Replica],
    ) -> Config {
        let region = identity.region();
        let files = self.issue(&Party::Gateway(identity.clone()), file);
        let mut config = config(replicas);
        config.region = region.to_owned();
        let yaml = format!(
            "version: 1\nregion: us\npeers:\n  accept: [us/*, eu/*, asia/*, uk/*]\n  listen: {}\n  ca: {}\n  certificate: {}\n  key: {}\n",
            self.address(port),
            self.ca().display(),
            files.certificate.display(),
            files.key.display()
        );
        config.peers = Config::read(&yaml).unwrap().peers;
        config
    }

    /// Path of the CA's revocation list.
    pub(crate) fn crl(&self) -> PathBuf {
        self.dir.join("ca.crl")
    }

    /// Writes a list that revokes the certificates of these regions' gateways.
    pub(crate) fn revoke(&self, regions: &[&str]) {
        std::fs::write(self.crl(), self.list(1, regions)).unwrap();
    }

    /// A revocation list with its number.
    pub(crate) fn list(&self, number: u64, regions: &[&str]) -> String {
        let revoked = |region: &&str| RevokedCertParams {
            serial_number: serial(region),
            revocation_time: date_time_ymd(2025, 1, 1),
            reason_code: None,
            invalidity_date: None,
        };
        let list = CertificateRevocationListParams {
            this_update: date_time_ymd(2025, 1, 1),
            next_update: date_time_ymd(2125, 1, 1),
            crl_number: SerialNumber::from(number),
            issuing_distribution_point: None,
            revoked_certs: regions.iter().map(revoked).collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        list.signed_by(&self.issuer).unwrap().pem().unwrap()
    }

    /// Replaces the gateway's certificate in `config` by an operator's.
    pub(crate) fn operate(&self, config: &mut Config) {
        let (crt, key) = (self.dir.join("operator.crt"), self.dir.join("operator.key"));
        let own = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        let uri = Party::operator(self.name, "alice").unwrap().uri();
        params.subject_alt_names.push(SanType::URI(uri.try_into().unwrap()));
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        std::fs::write(&crt, params.signed_by(&own, &self.issuer).unwrap().pem()).unwrap();
        std::fs::write(&key, own.serialize_pem()).unwrap();
        (peers(config).certificate, peers(config).key) = (crt, key);
    }
}

/// Serial number of a gateway's certificate, by its region.
fn serial(region: &str) -> SerialNumber {
    SerialNumber::from(region.bytes().map(|byte| byte & 0x7f).collect::<Vec<u8>>())
}

impl Drop for Fleet {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

/// The peer section of a configuration.
pub(crate) fn peers(config: &mut Config) -> &mut Peers {
    config.peers.as_mut().unwrap()
}

/// Makes a gateway follow another.
pub(crate) fn follow(config: &mut Config, region: &str, address: SocketAddr) {
    peers(config).gateways.push(Peer {
        name: format!("{region}-1"),
        region: region.to_owned(),
        continent: None,
        address: address.to_string(),
        places: Vec::new(),
    });
}
