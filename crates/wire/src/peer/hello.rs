//! The first message: who speaks, in which version, and whether prefix hashes mean the same.
//!
//! Of one major version, each side uses what both know. Another major version is refused, and the
//! error says who is to be updated. Two gateways of different secrets or block sizes still share
//! load, but no prefixes: their hashes of one text differ.

use meridian_base::{keyed, mix};

use super::bounds::{MOST_NAME, PeerError, name};
use super::identity::Identity;
use super::proto;

/// The version that this program speaks. A change that an older peer can't pass over raises it.
pub const MAJOR: u32 = 1;
/// Raised with every field or message that is added.
pub const MINOR: u32 = 6;
/// The first minor version whose gateways apply the residency rules that come with a request.
pub const RULES_SINCE: u32 = 2;
/// The first minor version whose news name the places of replicas.
pub const PLACES_SINCE: u32 = 5;

/// What a gateway says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Version of the protocol.
    pub major: u32,
    /// Additions to it.
    pub minor: u32,
    /// Who speaks.
    pub identity: Identity,
    /// See [`seed_check`].
    pub seed_check: u64,
    /// Bytes of a block of its fingerprints; 0 where its policy keeps no index.
    pub block_bytes: u32,
    /// Its policy, by name.
    pub policy: String,
}

/// What two gateways make of each other's hello.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Agreement {
    /// What both know.
    pub minor: u32,
    /// Whether prefix hashes of the one mean something to the other.
    pub prefixes: bool,
}

/// Why two gateways don't go together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Other versions of the protocol.
    #[error(
        "{them} speaks version {theirs} of the peer protocol and {us} version {ours}; update {behind}"
    )]
    Version {
        /// The other side.
        them: String,
        /// This side.
        us: String,
        /// Its version.
        theirs: u32,
        /// Ours.
        ours: u32,
        /// Who speaks the older one.
        behind: String,
    },
    /// Another fleet.
    #[error(
        "{them} is of fleet `{theirs}`, and this gateway of `{ours}`; a peer is of the same fleet"
    )]
    Fleet {
        /// The other side.
        them: String,
        /// Its fleet.
        theirs: String,
        /// Ours.
        ours: String,
    },
    /// It says to be somebody else than its certificate.
    #[error("the certificate is of {certified}, and the hello of {said}; a gateway says who it is")]
    Name {
        /// By its certificate.
        certified: String,
        /// By its hello.
        said: String,
    },
    /// It is this gateway.
    #[error("{0} is this gateway itself; take it out of peers, or give each gateway its own name")]
    Itself(String),
}

/// Something that tells whether two seeds are the same, and not what they are.
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

    /// What this gateway makes of another's hello, whose certificate is `certified`'s.
    ///
    /// # Errors
    /// When they can't work together.
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
        let same = theirs.seed_check == self.seed_check && theirs.block_bytes == self.block_bytes;
        Ok(Agreement {
            minor: self.minor.min(theirs.minor),
            prefixes: same && self.block_bytes > 0,
        })
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
