//! Recorded usage objects of the engines; each page's source is in `fixtures/README.md`.

mod usage;

/// A recorded page.
macro_rules! page {
    ($path:literal) => {
        include_bytes!(concat!("../fixtures/", $path)).as_slice()
    };
}
pub(super) use page;
