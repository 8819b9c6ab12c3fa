//! Between etcd's messages and the store's types.

use std::fmt;

use etcd_client::{KeyValue, ResponseHeader};
use meridian_base::Duration;
use tonic::Code;

use crate::Error;
use crate::store::{Entry, LeaseId, Revision};

/// A call that failed.
#[derive(Debug)]
pub(super) struct Failed {
    why: Why,
    /// Whether it may have been carried out nevertheless.
    pub(super) may_be_done: bool,
}

#[derive(Debug)]
enum Why {
    Client(etcd_client::Error),
    Late(Duration),
}

impl Failed {
    /// The connection could not be made.
    pub(super) fn not_sent(error: etcd_client::Error) -> Failed {
        Failed { why: Why::Client(error), may_be_done: false }
    }

    /// The call was sent, unless the error says that it was not.
    pub(super) fn sent(error: etcd_client::Error) -> Failed {
        let why = Why::Client(error);
        let failed = Failed { why, may_be_done: true };
        let refused = matches!(failed.status(), Some(status) if !is_of_member(status));
        // Without a connection nothing was sent.
        let unsent = failed.text().contains("tcp connect error");
        Failed { may_be_done: !refused && !unsent, ..failed }
    }

    pub(super) fn late(limit: Duration) -> Failed {
        Failed { why: Why::Late(limit), may_be_done: true }
    }

    fn status(&self) -> Option<&tonic::Status> {
        match &self.why {
            Why::Client(etcd_client::Error::GRpcStatus(status)) => Some(status),
            _ => None,
        }
    }

    fn text(&self) -> String {
        match (&self.why, self.status()) {
            (_, Some(status)) => with_sources(status.message(), status),
            (Why::Client(error), _) => error.to_string(),
            (Why::Late(limit), _) => format!("no answer within {limit:?}"),
        }
    }

    /// Whether another member may answer.
    pub(super) fn is_of_member(&self) -> bool {
        use etcd_client::Error as E;
        match &self.why {
            Why::Late(_) => true,
            Why::Client(E::GRpcStatus(status)) => is_of_member(status),
            Why::Client(E::LeaseKeepAliveError(text)) => !text.contains(NOT_FOUND),
            Why::Client(E::InvalidArgs(_) | E::InvalidUri(_) | E::InvalidMetadataValue(_)) => false,
            Why::Client(_) => true,
        }
    }

    /// Whether the member wants a new token: users or roles have changed.
    pub(super) fn has_old_token(&self) -> bool {
        self.text().contains("revision of auth store is old")
    }

    /// As the error of a call with this lease, and whether the call may have been carried out.
    pub(super) fn of_lease(self, id: LeaseId) -> (Error, bool) {
        let is_gone = match &self.why {
            Why::Client(etcd_client::Error::LeaseKeepAliveError(text)) => text.contains(NOT_FOUND),
            _ => self.status().is_some_and(|status| status.code() == Code::NotFound),
        };
        let done = self.may_be_done;
        (if is_gone { Error::NoLease(id) } else { self.into() }, done)
    }

    /// As the error of a compaction.
    pub(super) fn of_revision(self, asked: Revision) -> Error {
        match self.status() {
            Some(status) if status.message().contains("compacted") => {
                Error::Compacted { asked, oldest: asked.next() }
            }
            Some(status) if status.message().contains("future revision") => {
                let newest = Revision(asked.0.saturating_sub(1));
                Error::Future { asked, newest }
            }
            _ => self.into(),
        }
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text())
    }
}

impl From<Failed> for Error {
    fn from(failed: Failed) -> Error {
        let text = failed.text();
        match failed.status().map(tonic::Status::code) {
            Some(Code::ResourceExhausted) if text.contains("space exceeded") => Error::Full(text),
            Some(Code::PermissionDenied | Code::Unauthenticated) => Error::Denied(text),
            Some(Code::InvalidArgument)
                if text.contains("authentication failed")
                    || text.contains("user name is empty") =>
            {
                Error::Denied(text)
            }
            Some(Code::InvalidArgument) if text.contains("request is too large") => {
                let remedy = "store less in it, or raise etcd's --max-request-bytes";
                let (is, limit) = (MOST_REQUEST + 1, MOST_REQUEST);
                Error::OverLimit { what: "a transaction's length in bytes", is, limit, remedy }
            }
            _ => Error::Unavailable(text),
        }
    }
}

/// The start of tonic's message for an answer that is none of an RPC.
const NO_RPC: &str = "grpc-status header missing";

/// The client's word for a lease that has ended; its other errors of this kind are the stream's.
const NOT_FOUND: &str = "not found";

/// etcd's default for `--max-request-bytes`.
const MOST_REQUEST: usize = 3 << 19;

/// What a member answers if it cannot serve anyone, or what means that it did not answer.
fn is_of_member(status: &tonic::Status) -> bool {
    // A plain HTTP answer (a 404, say): a member that has not opened its service yet, or a proxy in its place.
    let is_no_rpc = status.message().starts_with(NO_RPC);
    let code = status.code();
    is_no_rpc
        || matches!(
            code,
            Code::Unavailable
                | Code::DeadlineExceeded
                | Code::Cancelled
                | Code::Unknown
                | Code::Internal
        )
}

/// A message with the causes behind it: tonic's own says "transport error".
fn with_sources(message: &str, status: &tonic::Status) -> String {
    let mut text = message.to_owned();
    let mut source = std::error::Error::source(status);
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}

/// An entry, with its key as Meridian knows it.
pub(super) fn entry(prefix: &str, kv: &KeyValue) -> Result<Entry, Error> {
    Ok(Entry {
        key: key(prefix, kv)?,
        value: kv.value().to_vec(),
        created: number(kv.create_revision()),
        modified: number(kv.mod_revision()),
        version: number(kv.version()).0,
        lease: Some(lease_id(kv.lease())).filter(|id| id.0 != 0),
    })
}

/// A key without the prefix.
pub(super) fn key(prefix: &str, kv: &KeyValue) -> Result<String, Error> {
    let text = std::str::from_utf8(kv.key()).ok().and_then(|text| text.strip_prefix(prefix));
    let foreign = || Error::Failed(format!("etcd answered with a key outside of {prefix}"));
    text.map(str::to_owned).ok_or_else(foreign)
}

/// The revision of an answer.
pub(super) fn revision(header: Option<&ResponseHeader>) -> Result<Revision, Error> {
    let missing = || Error::Failed("etcd answered without a header".to_owned());
    header.map(|header| number(header.revision())).ok_or_else(missing)
}

/// etcd's numbers are signed and never negative.
pub(super) fn number(revision: i64) -> Revision {
    Revision(u64::try_from(revision).unwrap_or(0))
}

/// A lease id has all 64 bits.
pub(super) fn lease_id(id: i64) -> LeaseId {
    LeaseId(id.cast_unsigned())
}

pub(super) fn raw(id: LeaseId) -> i64 {
    id.0.cast_signed()
}

pub(super) fn ttl(seconds: i64) -> Duration {
    Duration::from_secs(u64::try_from(seconds).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(code: Code, message: &str) -> Failed {
        Failed::sent(etcd_client::Error::GRpcStatus(tonic::Status::new(code, message)))
    }

    // Seen while etcd's members were cut off from each other: one answered 404 for a moment, and a watch ended for good.
    #[test]
    fn an_http_answer_is_the_members() {
        let plain = "grpc-status header missing, mapped from HTTP status code 404";
        let failed_so = failed(Code::Unimplemented, plain);
        assert!(failed_so.is_of_member() && failed_so.may_be_done);
        assert!(!failed(Code::Unimplemented, "unknown service").is_of_member());
    }
}
