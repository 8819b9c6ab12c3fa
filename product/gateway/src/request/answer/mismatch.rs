//! Detects answers that do not match the request. They pass unchanged, since a gateway that
//! rejected them would have to know every engine's habits. They are counted, so operators see them.

/// The kind of mismatch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mismatch {
    /// The client asked for a stream, and one JSON object arrived.
    JsonForStream,
    /// The client asked for one JSON object, and something else arrived.
    NotJson,
    /// More bytes arrived after the answer's own end.
    AfterEnd,
    /// The response has the id of another tenant's response.
    TakenId,
}

impl Mismatch {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Mismatch::JsonForStream => "json_for_stream",
            Mismatch::NotJson => "not_json",
            Mismatch::AfterEnd => "after_end",
            Mismatch::TakenId => "taken_id",
        }
    }
}

/// Checks one answer as it passes. Each kind is reported once.
#[derive(Debug)]
pub(crate) struct MismatchCheck {
    /// Whether one JSON object is expected.
    json: bool,
    began: bool,
    not_json: bool,
    after_end: bool,
}

impl MismatchCheck {
    pub(crate) fn new(json: bool) -> MismatchCheck {
        MismatchCheck { json, began: false, not_json: false, after_end: false }
    }

    /// A piece before the answer's own end.
    pub(crate) fn piece(&mut self, piece: &[u8]) -> Option<Mismatch> {
        let text = piece.trim_ascii_start();
        if !self.json || self.began || text.is_empty() {
            return None;
        }
        self.began = true;
        self.not_json = text[0] != b'{';
        self.not_json.then_some(Mismatch::NotJson)
    }

    /// The piece that contains the answer's own end: the last brace of an object. In a stream only
    /// OpenAI's end mark is checked, since no text may follow it.
    pub(crate) fn last_piece(&mut self, piece: &[u8]) -> Option<Mismatch> {
        const MARK: &[u8] = b"data: [DONE]";
        let end = match self.json {
            true => memchr::memrchr(b'}', piece)? + 1,
            false => memchr::memmem::rfind(piece, MARK)? + MARK.len(),
        };
        assert!(end <= piece.len(), "the end of an answer is behind its last byte");
        self.after_end(&piece[end..])
    }

    /// A piece after the end.
    pub(crate) fn after_end(&mut self, piece: &[u8]) -> Option<Mismatch> {
        let more = !self.not_json && !piece.trim_ascii().is_empty();
        (more && !std::mem::replace(&mut self.after_end, more)).then_some(Mismatch::AfterEnd)
    }

    /// The answer ended; `complete` if it reached its own end.
    pub(crate) fn ended(&self, complete: bool) -> Option<Mismatch> {
        (self.json && !self.not_json && !complete).then_some(Mismatch::NotJson)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // An answer that is not a JSON object is reported once: at its first byte, or at its end if
    // that comes too early.
    #[test]
    fn whole_answers() {
        let mut html = MismatchCheck::new(true);
        assert_eq!(html.piece(b" \n<html>"), Some(Mismatch::NotJson));
        assert_eq!((html.piece(b"{}"), html.ended(false)), (None, None));
        let mut half = MismatchCheck::new(true);
        assert_eq!((half.piece(b" "), half.piece(b"{\"a\":")), (None, None));
        assert_eq!(half.ended(false), Some(Mismatch::NotJson));
        let mut good = MismatchCheck::new(true);
        assert_eq!(
            (good.piece(b"{}"), good.ended(true), good.after_end(b"\n")),
            (None, None, None)
        );
    }

    // The same after a JSON object's last brace.
    #[test]
    fn after_the_brace() {
        let mut whole = MismatchCheck::new(true);
        assert_eq!(whole.last_piece(b"{\"a\":1} \n"), None);
        assert_eq!(whole.last_piece(b"{\"a\":1}<html>"), Some(Mismatch::AfterEnd));
    }

    // Text after the end mark is reported once, in the same piece or in a later one; line ends are
    // not text.
    #[test]
    fn after_the_end() {
        let mut stream = MismatchCheck::new(false);
        assert_eq!(stream.piece(b"<html>"), None);
        assert_eq!(stream.last_piece(b"data: {}\n\ndata: [DONE]\n\n"), None);
        assert_eq!(stream.after_end(b"\r\n"), None);
        assert_eq!(stream.after_end(b"more"), Some(Mismatch::AfterEnd));
        assert_eq!(stream.after_end(b"more"), None);
        let mut joined = MismatchCheck::new(false);
        assert_eq!(joined.last_piece(b"data: [DONE]\n\ndata: x\n\n"), Some(Mismatch::AfterEnd));
    }
}
