//! Tests on recorded pages of the engines; each page's source is in `signals/fixtures/README.md`.

mod pages;
mod random;
mod syntax;
mod table;

use super::Engine;
use crate::signals::{Load, SignalError};

/// A recorded page.
macro_rules! page {
    ($path:literal) => {
        include_bytes!(concat!("../../signals/fixtures/", $path)).as_slice()
    };
}
pub(super) use page;

const VLLM: Engine = &super::vllm::SPEC;
const SGLANG: Engine = &super::sglang::SPEC;
const LLAMACPP: Engine = &super::llamacpp::SPEC;
const TGI: Engine = &super::tgi::SPEC;
const TRTLLM: Engine = &super::trtllm::SPEC;

fn read(engine: Engine, page: &[u8]) -> Result<Load, SignalError> {
    engine.read_load(page)
}

fn capacity(engine: Engine, page: &[u8]) -> Result<Load, SignalError> {
    engine.read_capacity(page)
}
