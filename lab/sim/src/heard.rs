//! What a gateway heard from a sibling.

/// What a gateway heard from another one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Heard {
    /// Nothing, or not all: it has to ask for everything.
    #[default]
    Nothing,
    /// It has asked.
    Asked,
    /// Everything up to the record of this number.
    UpTo(u64),
}
