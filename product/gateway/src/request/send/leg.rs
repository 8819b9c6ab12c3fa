//! The request to one replica: the client's body, with the splices for that replica and what a
//! protocol adds.

use meridian_protocol::legs::Added;
use meridian_protocol::openai::{Purpose, Splices};

use crate::facts::hops::Part;
use crate::http::parts::{Parts, Taken};
use crate::replicas::member::Member;
use crate::request::context::Payload;

/// The difference between a decode leg and a whole request.
#[derive(Default)]
pub(crate) struct Leg {
    /// The protocol's additions.
    pub(crate) added: Added,
    /// Notes that the request is being sent.
    pub(crate) taken: Option<Taken>,
    /// Its part of the attempt.
    pub(crate) part: Part,
}

impl Leg {
    pub(crate) fn of(added: Added) -> Leg {
        Leg { added, taken: None, part: Part::Decode }
    }

    /// Whether any byte of its body was taken to be sent.
    pub(crate) fn is_taken(&self) -> bool {
        self.taken.as_ref().is_some_and(Taken::is_any)
    }
}

/// The body of a leg: the client's, with the leg's splices and the protocol's members.
pub(crate) fn leg_body(
    payload: &Payload,
    splices: &Splices,
    added: &Added,
    member: &Member,
) -> Parts {
    let wanted = |purpose| match purpose {
        Purpose::Model | Purpose::Strip(_) | Purpose::Usage | Purpose::Prefill | Purpose::Leg => {
            true
        }
        Purpose::CacheSalt => member.reads_salts(),
    };
    Parts::new(match added.members.is_empty() {
        true => splices.apply(&payload.body, wanted),
        false => splices.with_members(&payload.body, &added.members).apply(&payload.body, wanted),
    })
}
