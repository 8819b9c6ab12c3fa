//! Which engine answers, from what its endpoints said.
//!
//! The order is from what can be read to what can only be known: (1) the metrics page's own
//! prefixes, since that page is what probes will read; (2) `owned_by` of `/v1/models`, which
//! vLLM, SGLang and llama.cpp set to their names even where metrics are off; (3) `/props`, which
//! only llama.cpp has; (4) `/server_info`, SGLang's; (5) `/info`, TGI's. A page that is missing,
//! an error page or another server's says nothing and the next is asked.
//!
//! An engine known by (2) to (5) alone has no readable metrics: [`super::read`] then fails with
//! the flag that turns them on, which is better told than silently running without signals.

use serde::Deserialize;

use super::Engine;
use super::capacity::{Info, Props, ServerInfo};
use super::page::walk;

/// What the endpoints of a replica answered, as far as they were asked and said 200.
#[derive(Clone, Copy, Debug, Default)]
pub struct Answers<'a> {
    /// `GET /metrics`.
    pub metrics: Option<&'a [u8]>,
    /// `GET /v1/models`.
    pub models: Option<&'a [u8]>,
    /// `GET /props`.
    pub props: Option<&'a [u8]>,
    /// `GET /server_info`, or `/get_server_info` of older versions.
    pub server_info: Option<&'a [u8]>,
    /// `GET /info`.
    pub info: Option<&'a [u8]>,
}

/// The engine behind the answers; [`Engine::None`] where nothing tells.
pub fn detect(answers: &Answers<'_>) -> Engine {
    answers
        .metrics
        .and_then(by_metrics)
        .or_else(|| answers.models.and_then(by_owner))
        .or_else(|| parses::<Props>(answers.props, Engine::LlamaCpp))
        .or_else(|| parses::<ServerInfo>(answers.server_info, Engine::Sglang))
        .or_else(|| parses::<Info>(answers.info, Engine::Tgi))
        .unwrap_or(Engine::None)
}

/// The engine whose prefix the first telling line has.
fn by_metrics(page: &[u8]) -> Option<Engine> {
    const PREFIXES: [(Engine, &[u8]); 5] = [
        (Engine::Vllm, b"vllm:"),
        (Engine::Sglang, b"sglang:"),
        (Engine::Sglang, b"sglang_"),
        (Engine::LlamaCpp, b"llamacpp:"),
        (Engine::Tgi, b"tgi_"),
    ];
    PREFIXES.into_iter().find_map(|(engine, prefix)| {
        let mut any = false;
        // The callback never fails, so neither does the walk.
        let _ = walk(page, &[prefix], |_| {
            any = true;
            Ok(())
        });
        any.then_some(engine)
    })
}

#[derive(Deserialize)]
struct Models {
    data: Vec<Model>,
}

#[derive(Deserialize)]
struct Model {
    owned_by: Option<String>,
}

fn by_owner(page: &[u8]) -> Option<Engine> {
    let models: Models = serde_json::from_slice(page).ok()?;
    models.data.iter().find_map(|model| match model.owned_by.as_deref()? {
        "vllm" => Some(Engine::Vllm),
        "sglang" => Some(Engine::Sglang),
        "llamacpp" => Some(Engine::LlamaCpp),
        _ => None,
    })
}

fn parses<'a, T: Deserialize<'a>>(page: Option<&'a [u8]>, engine: Engine) -> Option<Engine> {
    let page = page?.trim_ascii_start();
    (page.starts_with(b"{") && serde_json::from_slice::<T>(page).is_ok()).then_some(engine)
}
