//! The pump's part in transfers: it ties the machine's requests to the tasks and to the names that
//! other engines use.

use super::{Denial, Export, Exports, FetchError, Import, LoadFailure, Op, Read, Shared};
use meridian_base::RequestId;
use meridian_engine::{Engine, Input, Leg, Usage};
use std::sync::Arc;
use tokio::sync::mpsc;

/// A request that is only one leg.
#[derive(Debug)]
pub(crate) enum Part {
    /// Its blocks are fetched by another engine.
    Prefill(Export),
    /// Its blocks are fetched from another engine.
    Decode(Import),
}

/// A leg in the engine.
#[derive(Debug)]
pub(crate) enum Running {
    /// With the tokens that are held, once they are.
    Prefill(Export, Option<u32>),
    Decode {
        /// Starts the fetch; dropped, it stops it.
        orders: mpsc::Sender<u32>,
        /// Tokens that the other engine found in its cache.
        cached: Option<u32>,
    },
}

/// All legs of an engine.
#[derive(Debug)]
pub(crate) struct Legs {
    shared: Arc<Shared>,
    exports: Exports,
}

impl Legs {
    pub(crate) fn new(shared: Arc<Shared>) -> Legs {
        Legs { shared, exports: Exports::default() }
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// Follows a request from its submission on. `report` gets the end of a fetch.
    pub(crate) fn start(
        &self,
        part: Part,
        report: impl FnOnce(Result<(), FetchError>) + Send + 'static,
    ) -> (Leg, Running) {
        match part {
            Part::Prefill(export) => {
                (Leg::Prefill { lease: self.shared.lease() }, Running::Prefill(export, None))
            }
            Part::Decode(import) => {
                let cached = import.remote.cached_tokens;
                let orders = import.start(self.shared.clone(), report);
                (Leg::Decode, Running::Decode { orders, cached })
            }
        }
    }

    /// What a fetch's end is to the machine. Wrong KV is no reason to compute the prompt: the
    /// client mixed up two requests.
    pub(crate) fn fetched(&self, id: RequestId, result: Result<(), FetchError>) -> Input {
        match result {
            Ok(()) => Input::Fetched(id),
            Err(error) => {
                let recompute = self.shared.load_failure == LoadFailure::Recompute
                    && error != FetchError::Wrong;
                Input::FetchFailed { id, recompute }
            }
        }
    }

    /// A request has ended: a prefill leg's answer gets its params, and a decode leg's usage the
    /// other engine's hit.
    pub(crate) fn finished(&self, engine: &Engine, id: RequestId, leg: Running, usage: &mut Usage) {
        match leg {
            Running::Prefill(export, Some(tokens)) => {
                let blocks: Vec<u32> = engine.held_blocks(id).unwrap_or_default().collect();
                let params = self.shared.params(&export.name, &blocks, tokens, usage);
                // The client may have left, or asked for a stream.
                let _ = export.reply.send(params);
            }
            Running::Decode { cached: Some(cached), .. } => usage.cached_tokens = cached,
            Running::Prefill(_, None) | Running::Decode { cached: None, .. } => {}
        }
    }

    /// The blocks of a prefill leg are held.
    pub(crate) fn held(&mut self, engine: &Engine, id: RequestId, export: &Export) {
        let blocks = engine.held_blocks(id).unwrap_or_default();
        self.exports.insert(id, export, blocks);
    }

    /// The blocks are not held any more.
    pub(crate) fn released(&mut self, id: RequestId) {
        self.exports.remove(id);
    }

    /// Answers another engine, perhaps with an input for the machine.
    pub(crate) fn remote(
        &mut self,
        request: &str,
        op: &Op,
    ) -> (Result<Read, Denial>, Option<Input>) {
        let id = self.exports.id(request);
        match (op, id) {
            (Op::Read { blocks }, _) => (self.exports.read(request, blocks), None),
            (Op::Renew, Some(id)) => {
                (Ok(Read::default()), Some(Input::Renew { id, lease: self.shared.renewed() }))
            }
            (Op::Free, Some(id)) => (Ok(Read::default()), Some(Input::Release(id))),
            (Op::Renew, None) => (Err(Denial::NotHeld), None),
            (Op::Free, None) => {
                self.shared.metrics().late_notifications += 1;
                (Err(Denial::NotHeld), None)
            }
        }
    }
}
