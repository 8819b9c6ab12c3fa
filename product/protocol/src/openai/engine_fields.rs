//! Fields that engines and their routers exchange inside a request: which blocks to fetch from
//! which engine, at which rendezvous to meet, which rank to use.
//!
//! They are a contract between a router and its engines. A client that sends one can crash an
//! engine: vLLM with a KV connector dies of `{"do_remote_prefill":true,"do_remote_decode":false}`,
//! and two SGLang requests with one `bootstrap_room` crash both schedulers. The gateway therefore
//! passes none of them on.
//!
//! The same goes for the engine's name of the request (`request_id`, SGLang's `rid`). vLLM makes it
//! the id of a stored response, so one client could give its response the id of another's, and an
//! older KV connector reads engines' addresses out of it. Clients name their requests in the header
//! `x-request-id`.
//!
//! A field counts if an engine reads it: in the body's object, in each object of a body that is an
//! array, and inside the containers that engines merge into the request, to any depth as long as
//! the path leads through containers and arrays only. Anywhere else the name belongs to the client:
//! a tool may well have an argument `bootstrap_host`. Each engine's file lists its names.

use std::fmt;
use std::sync::LazyLock;

use serde::de::{DeserializeSeed, Deserializer, Error, Visitor};

use crate::engines::private;

/// An engine's private field, by its name or, for unknown fields under a prefix that an engine uses
/// for them, by a pattern (`bootstrap_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EngineField(&'static str);

/// The first letters of all private names: most other names differ in theirs.
static FIRST: LazyLock<[bool; 256]> = LazyLock::new(|| {
    let mut first = [false; 256];
    for words in private() {
        let names = words.fields.iter().chain(words.containers);
        let prefixes = words.families.iter().map(|(prefix, _)| prefix);
        for letter in names.chain(prefixes).filter_map(|name| name.bytes().next()) {
            first[usize::from(letter)] = true;
        }
    }
    first
});

/// The family of a name: its prefix, and the name under which all of it is counted.
fn family(name: &str) -> Option<&'static str> {
    let mut families = private().flat_map(|words| words.families);
    families.find(|(prefix, _)| name.starts_with(prefix)).map(|(_, counted)| *counted)
}

impl EngineField {
    /// The field of this name.
    fn of(name: &str) -> Option<EngineField> {
        let known = private().find_map(|words| words.fields.iter().find(|known| **known == name));
        known.copied().or_else(|| family(name)).map(EngineField)
    }

    /// Its name, for an error.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.0
    }

    /// The name under which it is counted: its family's pattern, else its name. One of a short
    /// list.
    #[must_use]
    pub fn family(self) -> &'static str {
        family(self.0).unwrap_or(self.0)
    }
}

/// The treatment of a member, according to its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// A member to read: the index of its name in the list.
    Read(usize),
    /// An engine's private field.
    Engine(EngineField),
    /// A container that may hold private fields.
    Container,
    /// The client's own.
    Client,
}

impl Place {
    fn of(name: &str, read: &[&str]) -> Place {
        if let Some(i) = read.iter().position(|n| *n == name) {
            return Place::Read(i);
        }
        let first = name.bytes().next();
        if !first.is_some_and(|letter| FIRST[usize::from(letter)]) {
            return Place::Client;
        }
        match EngineField::of(name) {
            Some(field) => Place::Engine(field),
            None if private().any(|words| words.containers.contains(&name)) => Place::Container,
            None => Place::Client,
        }
    }
}

/// Matches a member's name, with any escapes, against a list of those to read.
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

    // Names, families and near misses; each is counted under one of a short list of names.
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
            ("request_id", Some(("request_id", "request_id"))),
            ("rid", Some(("rid", "rid"))),
            ("request_ids", None),
            ("", None),
        ];
        for (name, expected) in table {
            let field = EngineField::of(name);
            assert_eq!(field.map(|f| (f.name(), f.family())), expected, "{name}");
        }
    }

    // The filter by first letter misses no name of the lists.
    #[test]
    fn first_letters() {
        for words in private() {
            let prefixes = words.families.iter().map(|(prefix, _)| prefix);
            for name in words.fields.iter().chain(prefixes) {
                assert!(matches!(Place::of(name, &[]), Place::Engine(_)), "{name}");
            }
            for name in words.containers {
                assert_eq!(Place::of(name, &[]), Place::Container, "{name}");
            }
        }
        assert_eq!(Place::of("messages", &["model", "messages"]), Place::Read(1));
        assert_eq!(Place::of("metadata", &[]), Place::Client);
    }
}
