//! How a query ended, in the few words that metrics count by.

use hickory_proto::op::ResponseCode;
use hickory_proto::rr::RecordType;

/// The type that a query asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Addresses of IPv4.
    A,
    /// Addresses of IPv6.
    Aaaa,
    /// Name servers.
    Ns,
    /// The start of authority.
    Soa,
    /// Any type.
    Any,
    /// Another type, or none that could be read.
    Other,
}

impl Kind {
    pub(crate) fn of(kind: RecordType) -> Kind {
        match kind {
            RecordType::A => Kind::A,
            RecordType::AAAA => Kind::Aaaa,
            RecordType::NS => Kind::Ns,
            RecordType::SOA => Kind::Soa,
            RecordType::ANY => Kind::Any,
            _ => Kind::Other,
        }
    }

    /// Its name in metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Kind::A => "A",
            Kind::Aaaa => "AAAA",
            Kind::Ns => "NS",
            Kind::Soa => "SOA",
            Kind::Any => "ANY",
            Kind::Other => "other",
        }
    }
}

/// The result of a query: its response code, with an empty answer apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// Records.
    Answer,
    /// The name has no records of the type (NODATA).
    NoData,
    /// The name does not exist (NXDOMAIN).
    NxDomain,
    /// Outside the zone, or a transfer (REFUSED).
    Refused,
    /// No living gateway (SERVFAIL).
    ServFail,
    /// Not a query, but an update or another operation (NOTIMP).
    NotImplemented,
    /// A later version of EDNS (BADVERS).
    BadVersion,
    /// It could not be read (FORMERR).
    Malformed,
}

impl Outcome {
    pub(crate) fn code(self) -> ResponseCode {
        match self {
            Outcome::Answer | Outcome::NoData => ResponseCode::NoError,
            Outcome::NxDomain => ResponseCode::NXDomain,
            Outcome::Refused => ResponseCode::Refused,
            Outcome::ServFail => ResponseCode::ServFail,
            Outcome::NotImplemented => ResponseCode::NotImp,
            Outcome::BadVersion => ResponseCode::BADVERS,
            Outcome::Malformed => ResponseCode::FormErr,
        }
    }

    /// Whether the zone itself gives this answer (the AA bit).
    pub(crate) fn is_authoritative(self) -> bool {
        matches!(self, Outcome::Answer | Outcome::NoData | Outcome::NxDomain)
    }

    /// Its name in metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Outcome::Answer => "answer",
            Outcome::NoData => "nodata",
            Outcome::NxDomain => "nxdomain",
            Outcome::Refused => "refused",
            Outcome::ServFail => "servfail",
            Outcome::NotImplemented => "notimp",
            Outcome::BadVersion => "badvers",
            Outcome::Malformed => "formerr",
        }
    }
}
