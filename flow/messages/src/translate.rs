//! From messages to the flow machine's inputs, and back: names become rows, times left become times.

use std::time::Duration;

use meridian_base::{BatchId, PortId, RequestId, Time};
use meridian_flow as machine;

use super::{Batch, Pruned, Request, Verdict};

/// A batch with a value that the machine can't take.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum BatchError {
    /// A port that is not known.
    #[error("port `{0}` is unknown: name it in the settings of a gate first")]
    Port(String),
    /// A duration that is none.
    #[error("{field} is {value}: use a number, up to a year")]
    Duration {
        /// The field.
        field: &'static str,
        /// Its value.
        value: f64,
    },
}

impl Batch {
    /// The batch as the machine takes it at `now`, in the row `id`.
    ///
    /// # Errors
    /// If it names a port that `port` does not know, or a duration that is none.
    pub fn input(
        &self,
        now: Time,
        (id, number): (BatchId, u64),
        port: impl Fn(&str) -> Option<PortId>,
    ) -> Result<machine::Batch, BatchError> {
        let port = |name: &String| port(name).ok_or_else(|| BatchError::Port(name.clone()));
        let collectives = self.collectives.iter().map(|one| Ok((port(&one.port)?, one.bytes)));
        let requests = self.requests.iter().map(|one| member(now, one, &port));
        Ok(machine::Batch {
            id,
            number,
            layers: self.layers,
            layer_time: duration("layer_us", self.layer_us, 1e6)?,
            collectives: collectives.collect::<Result<_, BatchError>>()?,
            requests: requests.collect::<Result<_, BatchError>>()?,
        })
    }

    /// The same batch `since` later: the rest of its requests' budgets.
    #[must_use]
    pub fn later(mut self, since: Duration) -> Batch {
        for request in &mut self.requests {
            request.ttft_left_ms =
                request.ttft_left_ms.map(|left| left - since.as_secs_f64() * 1e3);
        }
        self
    }
}

fn member(
    now: Time,
    request: &Request,
    port: &impl Fn(&String) -> Result<PortId, BatchError>,
) -> Result<machine::Member, BatchError> {
    let left = request.ttft_left_ms.map(|left| duration("ttft_left_ms", left, 1e3)).transpose()?;
    let slo = request.slo_ms.map(|slo| duration("slo_ms", slo, 1e3)).transpose()?;
    let plan = request.plan.iter().map(|one| {
        let port = port(&one.port)?;
        Ok(machine::PortPlan { port, reuse: one.reuse, handoff: one.handoff })
    });
    // A budget that is used up is due at once.
    let deadline = left.map(|left| now + left.max(Duration::from_nanos(1)));
    assert!(deadline.is_none_or(|deadline| deadline > now), "the machine refuses past deadlines");
    Ok(machine::Member {
        id: RequestId(request.request),
        deadline,
        slo: slo.or(left).unwrap_or_default(),
        decode: duration("decode_ms", request.decode_ms, 1e3)?,
        plan: plan.collect::<Result<_, BatchError>>()?,
    })
}

/// A duration of at most a year; below zero it is zero.
fn duration(field: &'static str, value: f64, in_a_second: f64) -> Result<Duration, BatchError> {
    let seconds = value.max(0.0) / in_a_second;
    match value.is_nan() || seconds > 31_536_000.0 {
        true => Err(BatchError::Duration { field, value }),
        false => Ok(Duration::from_secs_f64(seconds)),
    }
}

impl Verdict {
    /// The coordinator's verdict as it is sent at `now`.
    #[must_use]
    pub fn of<'a>(
        now: Time,
        batch: u64,
        verdict: &machine::Verdict,
        name: impl Fn(PortId) -> &'a str,
    ) -> Verdict {
        assert!(
            verdict.pruned.len() <= verdict.requests as usize,
            "a verdict prunes requests of its batch"
        );
        let pruned = verdict.pruned.iter().map(|(request, why)| Pruned {
            request: request.0,
            port: name(why.port).to_owned(),
            late_us: u64::try_from(why.late_by.as_micros()).unwrap_or(u64::MAX),
            bytes: why.bytes,
        });
        let red_us = (verdict.red < Time::MAX).then(|| {
            let left = i128::from(verdict.red.as_nanos()) - i128::from(now.as_nanos());
            i64::try_from(left / 1000).unwrap_or(i64::MAX)
        });
        Verdict { batch, red_us, requests: verdict.requests, pruned: pruned.collect() }
    }

    /// The verdict as a node takes it at `now`, for its own row of the batch.
    #[must_use]
    pub fn input(
        &self,
        now: Time,
        (batch, number): (BatchId, u64),
        port: impl Fn(&str) -> Option<PortId>,
    ) -> machine::Verdict {
        let pruned = self.pruned.iter().map(|one| {
            let why = machine::PruneWhy {
                // Another node's: it is only shown.
                port: port(&one.port).unwrap_or(PortId(u32::MAX)),
                late_by: Duration::from_micros(one.late_us),
                bytes: one.bytes,
            };
            (RequestId(one.request), why)
        });
        let red = self.red_us.map_or(Time::MAX, |left| {
            let nanos = i128::from(now.as_nanos()) + i128::from(left) * 1000;
            Time::from_nanos(u64::try_from(nanos.max(0)).unwrap_or(u64::MAX))
        });
        let requests = self.requests;
        machine::Verdict { batch, number, red, requests, pruned: pruned.collect() }
    }
}
