//! The first bytes of a connection, which tell HTTP/1 from HTTP/2.
//!
//! hyper-util can tell them, too, but then gives hyper these bytes in a read by themselves. For the
//! next read hyper doubles its buffer of 8 KB, and keeps it as long as the connection.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt as _, ReadBuf};

/// The beginning of every HTTP/2 connection (RFC 9113, section 3.4).
const PREFACE: [u8; 24] = *b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// The part of it that no method starts with.
const PRI: &[u8] = b"PRI";

/// Received bytes that nothing has parsed: at most as many as the preface.
#[derive(Debug, Default)]
pub(super) struct Opening {
    bytes: [u8; PREFACE.len()],
    len: usize,
}

impl Opening {
    /// Reads until the version is known, or the client has closed its side. Bytes stay here when this
    /// is dropped meanwhile.
    pub(super) async fn read(&mut self, from: &mut (impl AsyncRead + Unpin)) -> io::Result<()> {
        while self.len < PREFACE.len() && PREFACE.starts_with(self.received()) {
            match from.read(&mut self.bytes[self.len..]).await? {
                0 => break,
                more => self.len += more,
            }
        }
        Ok(())
    }

    fn received(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(super) fn is_http2(&self) -> bool {
        self.received() == PREFACE
    }

    /// Whether this is no head of HTTP/1, even if the preface is not complete.
    pub(super) fn is_like_http2(&self) -> bool {
        self.received().starts_with(PRI)
    }

    /// Moves the bytes to `buf`.
    pub(super) fn take(&mut self, buf: &mut ReadBuf<'_>) {
        let taken = self.len.min(buf.remaining());
        buf.put_slice(&self.bytes[..taken]);
        self.bytes.copy_within(taken..self.len, 0);
        self.len -= taken;
        assert!(self.is_empty() || buf.remaining() == 0, "the socket is read before the opening");
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt as _;

    use super::*;

    /// The opening of a client that sends `text` byte by byte, and then closes.
    async fn opening(text: &[u8]) -> Opening {
        let (mut near, mut far) = tokio::io::duplex(1);
        let text = text.to_owned();
        tokio::spawn(async move {
            let _ = far.write_all(&text).await;
        });
        let mut opening = Opening::default();
        opening.read(&mut near).await.unwrap();
        opening
    }

    // The first byte that differs from the preface makes it HTTP/1; the whole preface is HTTP/2, and
    // nothing behind it is read.
    #[tokio::test]
    async fn versions_are_told_apart() {
        for (text, read) in
            [("", ""), ("POST /", "PO"), ("PRIVATE / ", "PRIV"), ("PRI * H", "PRI * H")]
        {
            let opening = opening(text.as_bytes()).await;
            assert_eq!(opening.received(), read.as_bytes());
            assert!(!opening.is_http2(), "{text}");
            assert_eq!(opening.is_like_http2(), text.starts_with("PRI"));
        }
        let text = [&PREFACE[..], b"frames"].concat();
        let opening = opening(&text).await;
        assert_eq!(opening.received(), PREFACE);
        assert!(opening.is_http2() && opening.is_like_http2());
    }

    // Bytes go to the first reads, however small these are.
    #[tokio::test]
    async fn bytes_are_given_back() {
        let mut opening = opening(b"PRIV").await;
        let mut taken = Vec::new();
        for size in [0, 1, 2, 8] {
            let mut space = [0; 8];
            let mut buf = ReadBuf::new(&mut space[..size]);
            opening.take(&mut buf);
            taken.extend_from_slice(buf.filled());
        }
        assert_eq!(taken, b"PRIV");
        assert!(opening.is_empty());
    }
}
