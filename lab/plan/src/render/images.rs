//! Container images. versions.env pins vLLM's; the gateway's has this program's version.

const VERSIONS: &str = include_str!("../../../../versions.env");

/// vLLM's image with its tag.
pub(super) fn vllm() -> &'static str {
    let line = VERSIONS.lines().find_map(|line| line.strip_prefix("VLLM_IMAGE=\""));
    line.and_then(|line| line.strip_suffix('"')).expect("versions.env pins VLLM_IMAGE")
}

/// The gateway's image, as docs/install.md loads it.
pub(super) const fn gateway() -> &'static str {
    concat!("localhost/meridian:", env!("CARGO_PKG_VERSION"))
}
