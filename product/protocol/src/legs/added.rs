//! A protocol's additions to one leg: members of its body, and headers.

use std::fmt;

use bytes::Bytes;
use http::{HeaderName, HeaderValue};
use serde::Serialize;
use smallvec::SmallVec;

use super::pair::Pair;
use crate::openai::Pieces;

/// Additions to one leg.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Added {
    /// Members of the body's object, in pieces, for
    /// [`Splices::with_members`](crate::openai::Splices::with_members).
    pub members: Pieces,
    /// Headers.
    pub headers: SmallVec<[(HeaderName, HeaderValue); 1]>,
}

impl Added {
    /// The member in which vLLM's connectors read their parameters; `value` is an object with a
    /// member. The rest of the request's TTFT budget goes first, for connectors that order their
    /// transfers by it; vLLM's own ignore it.
    pub(super) fn kv_transfer_params(pair: &Pair<'_>, value: Bytes) -> Added {
        assert_eq!(value.first(), Some(&b'{'), "a connector's parameters are an object");
        const NAME: Bytes = Bytes::from_static(b"\"kv_transfer_params\":");
        let members = match pair.ttft_left_ms {
            None => Pieces::from_iter([NAME, value]),
            Some(left) => {
                let budget = Bytes::from(format!("{{\"slo_ttft_ms\":{left},"));
                Pieces::from_iter([NAME, budget, value.slice(1..)])
            }
        };
        Added { members, ..Added::default() }
    }

    pub(super) fn header(self, name: &'static str, value: HeaderValue) -> Added {
        let headers = SmallVec::from_iter([(HeaderName::from_static(name), value)]);
        Added { headers, ..self }
    }
}

/// Without the members' values: a prefill's parameters may hold the prompt's tokens.
impl fmt::Debug for Added {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes: usize = self.members.iter().map(Bytes::len).sum();
        write!(f, "Added({bytes} bytes of members, headers {:?})", self.headers)
    }
}

/// A value as JSON.
pub(super) fn json(value: &impl Serialize) -> Bytes {
    Bytes::from(serde_json::to_vec(value).expect("plain structs of strings always serialize"))
}
