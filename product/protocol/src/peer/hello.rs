//! The first message: the sender's identity, its version, and whether prefix hashes are comparable.
//!
//! Within one major version, each side uses the features of both. Another major version is refused,
//! and the error says which side to update. Two gateways with different secrets or block sizes
//! still share load, but no prefixes: their hashes of one text differ.

use meridian_base::{keyed, mix};

use super::bounds::{MOST_NAME, PeerError, name};
use super::identity::Identity;
use super::proto;

/// The version of this program. A change that an older peer can't ignore raises it.
pub const MAJOR: u32 = 1;
/// Raised with every added field or message.
pub const MINOR: u32 = 7;
/// The first minor version whose gateways apply the residency rules of a forwarded request.
pub const RULES_SINCE: u32 = 2;
/// The first minor version whose news contains the places of replicas.
pub const PLACES_SINCE: u32 = 5;
/// The first minor version whose gateways of one region tell each other of their requests.
pub const SIBLINGS_SINCE: u32 = 7;
const _: () = assert!(RULES_SINCE <= MINOR && PLACES_SINCE <= MINOR, "this version has both");
const _: () = assert!(SIBLINGS_SINCE <= MINOR, "this version tells siblings");

/// A gateway's description of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Version of the protocol.
    pub major: u32,
    /// Minor version of the protocol.
    pub minor: u32,
    /// The sender.
    pub identity: Identity,
    /// See [`seed_check`].
    pub seed_check: u64,
    /// Bytes per block of its fingerprints; 0 if its policy keeps no index.
    pub block_bytes: u32,
    /// Its policy, by name.
    pub policy: String,
}

/// The result of exchanging two hellos.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Agreement {
    /// The minor version that both support.
    pub minor: u32,
    /// Whether the hashes of names are comparable.
    pub same_secret: bool,
    /// Whether the hashes of prefixes are, too.
    pub prefixes: bool,
}

/// Why two gateways can't work together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Other versions of the protocol.
    #[error(
        "{them} speaks version {theirs} of the peer protocol and {us} version {ours}; update {behind}"
    )]
    Version {
        /// The other side.
        them: String,
        /// This gateway.
        us: String,
        /// Its version.
        theirs: u32,
        /// This gateway's version.
        ours: u32,
        /// The gateway with the older version.
        behind: String,
    },
    /// Another fleet.
    #[error(
        "{them} belongs to fleet `{theirs}`, and this gateway to `{ours}`; use certificates of one fleet"
    )]
    Fleet {
        /// The other side.
        them: String,
        /// Its fleet.
        theirs: String,
        /// This gateway's fleet.
        ours: String,
    },
    /// Its hello and its certificate name different gateways.
    #[error(
        "the certificate belongs to {certified}, and the hello to {said}; use the certificate of the gateway itself"
    )]
    Name {
        /// The name in its certificate.
        certified: String,
        /// The name in its hello.
        said: String,
    },
    /// It is this gateway itself.
    #[error("{0} is this gateway itself; remove it from peers, or give each gateway its own name")]
    Itself(String),
}

/// A hash that shows whether two seeds are equal without revealing them.
#[must_use]
pub fn seed_check(seed: u64) -> u64 {
    mix(keyed(seed, b"meridian peer seed check"), 1)
}

impl Hello {
    /// The hello of this program.
    #[must_use]
    pub fn new(identity: Identity, seed: u64, block_bytes: u32, policy: &str) -> Hello {
        let seed_check = seed_check(seed);
        let policy = policy.to_owned();
        Hello { major: MAJOR, minor: MINOR, identity, seed_check, block_bytes, policy }
    }

    /// Compares another gateway's hello with this one; its certificate is `certified`'s.
    ///
    /// # Errors
    /// If they can't work together.
    pub fn meet(&self, theirs: &Hello, certified: &Identity) -> Result<Agreement, Refused> {
        if &theirs.identity != certified {
            let (certified, said) = (certified.to_string(), theirs.identity.to_string());
            return Err(Refused::Name { certified, said });
        }
        if theirs.identity.fleet() != self.identity.fleet() {
            return Err(Refused::Fleet {
                them: theirs.identity.to_string(),
                theirs: theirs.identity.fleet().to_owned(),
                ours: self.identity.fleet().to_owned(),
            });
        }
        if theirs.identity == self.identity {
            return Err(Refused::Itself(self.identity.to_string()));
        }
        if theirs.major != self.major {
            let (them, us) = (theirs.identity.to_string(), self.identity.to_string());
            let behind = if theirs.major < self.major { them.clone() } else { us.clone() };
            let (theirs, ours) = (theirs.major, self.major);
            return Err(Refused::Version { them, us, theirs, ours, behind });
        }
        let same_secret = theirs.seed_check == self.seed_check;
        let same_blocks = theirs.block_bytes == self.block_bytes && self.block_bytes > 0;
        Ok(Agreement {
            minor: self.minor.min(theirs.minor),
            same_secret,
            prefixes: same_secret && same_blocks,
        })
    }

    /// Whether both keep an index of prefixes, but share none because their secrets differ.
    #[must_use]
    pub fn has_other_secret(&self, theirs: &Hello) -> bool {
        let both_index = self.block_bytes > 0 && theirs.block_bytes > 0;
        both_index && theirs.seed_check != self.seed_check
    }
}

impl From<&Hello> for proto::Hello {
    fn from(hello: &Hello) -> proto::Hello {
        proto::Hello {
            major: hello.major,
            minor: hello.minor,
            fleet: hello.identity.fleet().to_owned(),
            region: hello.identity.region().to_owned(),
            gateway: hello.identity.gateway().to_owned(),
            seed_check: hello.seed_check,
            block_bytes: hello.block_bytes,
            policy: hello.policy.clone(),
        }
    }
}

impl TryFrom<proto::Hello> for Hello {
    type Error = PeerError;

    fn try_from(hello: proto::Hello) -> Result<Hello, PeerError> {
        name("policy", &hello.policy, MOST_NAME)?;
        Ok(Hello {
            major: hello.major,
            minor: hello.minor,
            identity: Identity::new(&hello.fleet, &hello.region, &hello.gateway)?,
            seed_check: hello.seed_check,
            block_bytes: hello.block_bytes,
            policy: hello.policy,
        })
    }
}
