//! The inference engines that Meridian knows.
//!
//! An engine is one file here and one line in [`ALL`]: how to detect it, which pages report its
//! load and capacity and how to read them, and which fields the gateway may send. Configuration,
//! the admin API, the command line, `docs/engines.md` and the tests follow from that line.
//!
//! Everything here is pure: bytes in, numbers out. The gateway fetches the pages and checks their
//! age.

mod llamacpp;
mod none;
mod private;
mod sglang;
mod spec;
mod tgi;
mod trtllm;
mod vllm;

#[cfg(test)]
mod tests;

use std::iter::once;

use serde::Deserialize;

use crate::signals::has_metric;

pub use private::Private;
pub use spec::{Detect, EngineSpec, LoadPage, OwnPage, ReadAdapters};

/// An entry of the engine table.
pub type Engine = &'static EngineSpec;

/// Every engine, in the order of lists and of detection.
pub static ALL: &[Engine] =
    &[&vllm::SPEC, &sglang::SPEC, &llamacpp::SPEC, &tgi::SPEC, &trtllm::SPEC, &none::SPEC];

/// Any other OpenAI-compatible server.
pub static NONE: Engine = &none::SPEC;

/// The engine called `name`.
#[must_use]
pub fn find(name: &str) -> Option<Engine> {
    ALL.iter().copied().find(|engine| engine.name == name)
}

/// Fields and headers that a client must not send: those of each engine, and of routers in front of
/// engines.
pub fn private() -> impl Iterator<Item = &'static Private> {
    once(&private::ROUTERS).chain(ALL.iter().map(|engine| &engine.private))
}

/// The pages that identify one engine each.
pub fn own_pages() -> impl Iterator<Item = OwnPage> {
    ALL.iter().filter_map(|engine| engine.detect.own_page)
}

/// The version in an engine's own page about it ([`EngineSpec::version`]).
#[must_use]
pub fn version(page: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Page {
        version: String,
    }
    serde_json::from_slice(page).ok().map(|Page { version }| version)
}

/// Successful answers of a replica's endpoints, as far as they were requested.
#[derive(Clone, Copy, Debug, Default)]
pub struct Answers<'a> {
    /// `GET /metrics`.
    pub metrics: Option<&'a [u8]>,
    /// One of [`own_pages`]: its path and its body.
    pub own: Option<(&'a str, &'a [u8])>,
}

/// The engine behind the answers.
///
/// The metrics page decides first, since probes will read it, then the page that only one engine
/// has. An error page or another server's page identifies no engine. `owned_by` of the model list
/// is not used: routers in front of engines repeat it, and have other pages.
#[must_use]
pub fn detect(answers: &Answers<'_>) -> Option<Engine> {
    let all = || ALL.iter().copied();
    let prefixed = |page| all().find(|engine| has_metric(page, engine.detect.metrics));
    let by_own_page = |(path, page): (&str, &[u8])| {
        all().find(|e| e.detect.own_page.is_some_and(|own| own.path == path && (own.is_own)(page)))
    };
    answers.metrics.and_then(prefixed).or_else(|| answers.own.and_then(by_own_page))
}
