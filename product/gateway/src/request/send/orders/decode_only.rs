//! One request, to the decode replica. The engines divide it among themselves.

use super::Split;
use crate::facts::timeline::Part;
use crate::machine::ticket::Ticket;
use crate::request::send::Attempts;
use crate::request::send::replica::Leg;
use crate::request::send::transport::{Failure, Started};

impl Attempts {
    /// The request names the prefill replica, and is not split here.
    pub(super) async fn decode_only(
        &self,
        split: Split<'_>,
        ticket: &Ticket,
    ) -> Result<Started, Failure> {
        let Split { context, payload, legs, protocol, pair, .. } = split;
        let added = (protocol.decode)(pair, None).map_err(|_| self.fall_back("lacks"))?;
        let leg = Leg { part: Part::Whole, ..Leg::of(added) };
        self.to_replica(context, payload, legs.to, &leg, ticket).await
    }
}
