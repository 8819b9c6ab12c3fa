//! The gateway's own answers, in one piece.

pub(crate) type Body = http_body_util::Full<bytes::Bytes>;
