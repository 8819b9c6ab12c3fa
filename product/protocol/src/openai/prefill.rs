//! The prefill leg's body: the client's own, with every token limit 1 and no stream.
//!
//! A prefill replica computes the prompt and one token, which is thrown away: the decode replica
//! samples it again. So everything that shapes the prompt or the first token stays. A limit that is
//! left makes the engine generate on. `min_tokens` above the limit is refused. A streamed answer
//! has no parameters for the decode leg, and still pins the blocks. Anthropic's
//! `thinking.budget_tokens` stays: engines exempt it in a prefill leg, and templates may read it.
//!
//! This is a pass of its own over the frozen body, for requests in front of a prefill pool. Other
//! requests do not pay for it.

use std::fmt;

use bytes::Bytes;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::encoding::utf8;
use super::endpoint::Endpoint;
use super::engine_fields::{Name, Place};
use super::no_leg::{DECIDING, NoPrefillLeg, one_answer};
use super::raw::Trouble;
use super::splice::{Purpose, Splice, Splices, offset};
use super::strip::{Strip, Walk};

/// The members that are changed, then those that decide.
const READ: [&str; 17] = {
    let mut read = [""; 17];
    let mut i = 0;
    while i < 17 {
        read[i] = if i < CHANGED.len() { CHANGED[i] } else { DECIDING[i - CHANGED.len()] };
        i += 1;
    }
    read
};

/// Limits become 1, [`STREAM`] false; the rest is cut.
const CHANGED: [&str; 6] = [
    "max_tokens",
    "max_completion_tokens",
    "max_output_tokens",
    "stream",
    "stream_options",
    "min_tokens",
];
const LIMITS: usize = 3;
const STREAM: usize = LIMITS;
const _: () = assert!(READ.len() == CHANGED.len() + DECIDING.len(), "no member is left out");
const _: () = assert!(STREAM < CHANGED.len(), "the stream is among the changed members");

/// The splices that make the prefill leg's body. They take the place of the body's usual splices,
/// `usual`, of which they contain the cuts, the model's name, and the salt if it was added before.
/// They do not ask for usage, since the answer is no stream.
///
/// The cost is that of one pass over the body.
///
/// # Errors
/// If one replica has to serve the request whole.
pub fn prefill_leg(
    endpoint: Endpoint,
    body: &[u8],
    usual: &Splices,
) -> Result<Splices, NoPrefillLeg> {
    if !endpoint.is_generation() {
        return Err(NoPrefillLeg::Endpoint);
    }
    let json = utf8(body).map_err(|_| NoPrefillLeg::Unreadable)?;
    let (found, mut splices) = find(json).ok_or(NoPrefillLeg::Unreadable)?;
    if found.twice {
        return Err(NoPrefillLeg::Twice);
    }
    // The members below are inserted before another one.
    if splices.leaves_nothing(body, start(json)) {
        return Err(NoPrefillLeg::Unreadable);
    }
    one_answer(endpoint, &found.values[CHANGED.len()..])?;
    limit(endpoint, json, &found.values, &mut splices)?;
    let kept = |splice: &&Splice| matches!(splice.purpose, Purpose::CacheSalt | Purpose::Model);
    for splice in usual.iter().filter(kept) {
        splices.push(splice.clone());
    }
    assert!(splices.has(Purpose::Prefill), "every prefill leg is limited");
    Ok(splices)
}

/// The place of the first member.
fn start(json: &str) -> usize {
    json.find('{').unwrap_or_default() + 1
}

/// The limits that an engine reads on an endpoint, of which the first is inserted if all are
/// missing.
fn own_limits(endpoint: Endpoint) -> &'static [usize] {
    match endpoint {
        Endpoint::ChatCompletions => &[0, 1],
        Endpoint::Responses => &[2],
        _ => &[0],
    }
}

/// Adds the splices for the limits and the stream.
fn limit(
    endpoint: Endpoint,
    json: &str,
    values: &Values<'_>,
    splices: &mut Splices,
) -> Result<(), NoPrefillLeg> {
    let own = own_limits(endpoint);
    if own.iter().any(|i| values[*i].is_some_and(|limit| limit.get() == "0")) {
        return Err(NoPrefillLeg::NoToken);
    }
    let start = start(json);
    let mut change = |at, remove, insert: Bytes| {
        splices.push(Splice { purpose: Purpose::Prefill, at, remove, insert });
    };
    let of = |value: &RawValue| (offset(json, value), value.get().len());
    for (at, len) in values[..LIMITS].iter().flatten().map(|value| of(value)) {
        change(at, len, Bytes::from_static(b"1"));
    }
    if own.iter().all(|i| values[*i].is_none()) {
        change(start, 0, Bytes::from(format!("\"{}\":1,", CHANGED[own[0]])));
    }
    match values[STREAM].map(of) {
        Some((at, len)) => change(at, len, Bytes::from_static(b"false")),
        None => change(start, 0, Bytes::from_static(b"\"stream\":false,")),
    }
    Ok(())
}

type Values<'a> = [Option<&'a RawValue>; READ.len()];

#[derive(Default)]
struct PrefillFound<'a> {
    values: Values<'a>,
    /// One of them is given twice.
    twice: bool,
}

/// The members of [`READ`], and the cuts.
fn find(json: &str) -> Option<(PrefillFound<'_>, Splices)> {
    let (trouble, strip) = (Trouble::default(), Strip::new(json));
    let walk = Walk { strip: &strip, trouble: &trouble };
    let mut parser = serde_json::Deserializer::from_str(json);
    let found = Top { walk }.deserialize(&mut parser).ok()?;
    parser.end().ok()?;
    Some((found, strip.into_cuts()))
}

struct Top<'c> {
    walk: Walk<'c>,
}

impl<'de> DeserializeSeed<'de> for Top<'_> {
    type Value = PrefillFound<'de>;

    fn deserialize<D: Deserializer<'de>>(self, d: D) -> Result<PrefillFound<'de>, D::Error> {
        d.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Top<'_> {
    type Value = PrefillFound<'de>;

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<PrefillFound<'de>, A::Error> {
        let Walk { strip, trouble } = self.walk;
        let mut found = PrefillFound::default();
        while let Some(place) = map.next_key_seed(Name(&READ))? {
            match place {
                Place::Read(i) => {
                    let value: &RawValue = map.next_value()?;
                    found.twice |= found.values[i].replace(value).is_some();
                    if (STREAM + 1..CHANGED.len()).contains(&i) {
                        strip.remove(Purpose::Prefill, value);
                    }
                }
                Place::Container => map.next_value_seed(self.walk)?,
                Place::Engine(field) => {
                    strip.cut(field, map.next_value()?).map_err(|bad| trouble.stop(bad))?;
                }
                Place::Client => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(found)
    }

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }
}
