//! An answer of the gateway's own, in one piece.

pub(crate) type Body = http_body_util::Full<bytes::Bytes>;
