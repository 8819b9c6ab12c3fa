//! The fields by which engines and their routers talk about one request: which blocks to fetch from
//! which engine, at which rendezvous to meet, which rank to use.
//!
//! They are a contract between a router and its engines. A client that sends one can end an engine:
//! vLLM with a KV connector dies of `{"do_remote_prefill":true,"do_remote_decode":false}`, and two
//! SGLang requests with one `bootstrap_room` end both schedulers. So none of them passes.
//!
//! A field counts where an engine reads it: in the body's object, in each object of a body that is
//! an array, and inside the containers below, to any depth as long as the path leads through
//! containers and arrays alone. Everywhere else a name is the client's own: a tool may well have an
//! argument `bootstrap_host`.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, Visitor};

/// A field that belongs to the engines, by its name or, where engines grow such fields under one
/// prefix and this one is not known, by a pattern (`bootstrap_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EngineField(&'static str);

/// Known fields: vLLM's, SGLang's, TensorRT-LLM's and Dynamo's. SGLang reads `decode_tp_size` beside
/// its `bootstrap_` fields (`GenerateReqInput`), to shape the transfer.
const FIELDS: [&str; 19] = [
    "kv_transfer_params",
    "ec_transfer_params",
    "bootstrap_host",
    "bootstrap_port",
    "bootstrap_room",
    "bootstrap_pair_key",
    "disagg_prefill_dp_rank",
    "disagg_request_id",
    "disaggregated_params",
    "routed_dp_rank",
    "data_parallel_rank",
    "data_parallel_rank_decode",
    "decode_tp_size",
    "backend_instance_id",
    "prefill_worker_id",
    "decode_worker_id",
    "prefill_dp_rank",
    "dp_rank",
    "disagg_spec",
];

/// Prefixes of families, each with the pattern that stands for all of it.
const FAMILIES: [(&str, &str); 3] = [
    ("bootstrap_", "bootstrap_*"),
    ("disagg_", "disagg_*"),
    ("data_parallel_rank", "data_parallel_rank"),
];

/// Members whose value engines merge into the request or into its sampling parameters: vLLM's, those
/// of the OpenAI client that were meant to be unpacked, Dynamo's, SGLang's, and what `/generate` of
/// TGI and the endpoints for Vertex take.
const CONTAINERS: [&str; 7] = [
    "vllm_xargs",
    "extra_args",
    "extra_body",
    "sampling_params",
    "nvext",
    "custom_params",
    "parameters",
];

impl EngineField {
    /// The field of this name.
    fn of(name: &str) -> Option<EngineField> {
        if let Some(known) = FIELDS.iter().find(|known| **known == name) {
            return Some(EngineField(known));
        }
        let family = FAMILIES.iter().find(|(prefix, _)| name.starts_with(prefix));
        family.map(|(_, pattern)| EngineField(pattern))
    }

    /// Its name, for an error.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.0
    }

    /// What it is counted under: its family's pattern, else its name. One of a short list.
    #[must_use]
    pub fn family(self) -> &'static str {
        let family = FAMILIES.iter().find(|(prefix, _)| self.0.starts_with(prefix));
        family.map_or(self.0, |(_, pattern)| pattern)
    }
}

/// What a member's name says of its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// It is read: the number of its name in the list.
    Read(usize),
    /// It belongs to the engines.
    Engine(EngineField),
    /// It may hold what belongs to them.
    Container,
    /// It is the client's own.
    Client,
}

impl Place {
    fn of(name: &str, read: &[&str]) -> Place {
        if let Some(i) = read.iter().position(|n| *n == name) {
            return Place::Read(i);
        }
        // Most names end here: none of the others begins with another letter.
        if !matches!(
            name.as_bytes().first(),
            Some(b'b'..=b'e' | b'k' | b'n' | b'p' | b'r' | b's' | b'v')
        ) {
            return Place::Client;
        }
        match EngineField::of(name) {
            Some(field) => Place::Engine(field),
            None if CONTAINERS.contains(&name) => Place::Container,
            None => Place::Client,
        }
    }
}

/// A member's name, whatever escapes it is written with, against a list of those that are read.
pub(crate) struct Name(pub(crate) &'static [&'static str]);

impl<'de> DeserializeSeed<'de> for Name {
    type Value = Place;

    fn deserialize<D: Deserializer<'de>>(self, d: D) -> Result<Place, D::Error> {
        d.deserialize_str(self)
    }
}

impl Visitor<'_> for Name {
    type Value = Place;

    fn visit_str<E: Error>(self, name: &str) -> Result<Place, E> {
        Ok(Place::of(name, self.0))
    }

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Names, families and near misses; each is counted under one of a short list of words.
    #[test]
    fn names() {
        let table = [
            ("kv_transfer_params", Some(("kv_transfer_params", "kv_transfer_params"))),
            ("bootstrap_room", Some(("bootstrap_room", "bootstrap_*"))),
            ("bootstrap_secret", Some(("bootstrap_*", "bootstrap_*"))),
            ("disagg_", Some(("disagg_*", "disagg_*"))),
            ("disaggregated_params", Some(("disaggregated_params", "disaggregated_params"))),
            ("data_parallel_rank_x", Some(("data_parallel_rank", "data_parallel_rank"))),
            (
                "data_parallel_rank_decode",
                Some(("data_parallel_rank_decode", "data_parallel_rank")),
            ),
            ("kv_transfer_param", None),
            ("Kv_transfer_params", None),
            ("bootstrap", None),
            ("decode", None),
            ("", None),
        ];
        for (name, expected) in table {
            let field = EngineField::of(name);
            assert_eq!(field.map(|f| (f.name(), f.family())), expected, "{name}");
        }
    }

    // The quick look at the first letter lets no name of the lists by.
    #[test]
    fn first_letters() {
        for name in FIELDS.iter().chain(FAMILIES.iter().map(|(prefix, _)| prefix)) {
            assert!(matches!(Place::of(name, &[]), Place::Engine(_)), "{name}");
        }
        for name in CONTAINERS {
            assert_eq!(Place::of(name, &[]), Place::Container, "{name}");
        }
        assert_eq!(Place::of("messages", &["model", "messages"]), Place::Read(1));
        assert_eq!(Place::of("metadata", &[]), Place::Client);
    }
}
