//! A replica's script for one request: bytes, pauses and ends, in the given order.

use std::time::Duration;

use bytes::Bytes;

#[derive(Clone, Debug)]
pub(crate) enum Step {
    Send(Bytes),
    Wait(Duration),
    /// Moves the clock on before anything else runs: the gateway is stopped for this time.
    Jump(Duration),
    /// Stays silent until the client disconnects.
    Hang,
    Close,
    /// Closes like a process that dies with unread bytes.
    Reset,
    /// As the first step: the following steps run before the request's body is read.
    Early,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Script(pub(crate) Vec<Step>);

impl Script {
    /// A complete answer with a length.
    pub(crate) fn answer(status: u16, headers: &str, body: &str) -> Script {
        let length = body.len();
        Script::default().send(&format!(
            "HTTP/1.1 {status} Word\r\n{headers}content-length: {length}\r\n\r\n{body}"
        ))
    }

    pub(crate) fn json(status: u16, body: &str) -> Script {
        Script::answer(status, "content-type: application/json\r\n", body)
    }

    /// The head of a stream of events.
    pub(crate) fn sse() -> Script {
        Script::default().send(
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n",
        )
    }

    /// A stream of events, each in its own chunk after a `gap`, and its end.
    pub(crate) fn stream(events: &[&str], gap: Duration) -> Script {
        let paced = |s: Script, e: &&str| s.wait(gap).event(e);
        events.iter().fold(Script::sse(), paced).send("0\r\n\r\n")
    }

    /// The head of a JSON answer of `length` bytes.
    pub(crate) fn head(length: usize) -> Script {
        Script::default().send(&format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n"
        ))
    }

    /// A JSON answer that is too long to be kept back, without its last byte, `}`.
    pub(crate) fn unfinished() -> Script {
        const KEPT_BACK: usize = 64 << 10;
        Script::head(KEPT_BACK + 1).send(&format!("{{{}", " ".repeat(KEPT_BACK - 1)))
    }

    pub(crate) fn silence() -> Script {
        Script::default().hang()
    }

    /// A JSON answer, after the steps so far.
    pub(crate) fn answers(mut self, body: &str) -> Script {
        self.0.extend(Script::json(200, body).0);
        self
    }

    pub(crate) fn send(mut self, text: &str) -> Script {
        self.0.push(Step::Send(Bytes::copy_from_slice(text.as_bytes())));
        self
    }

    pub(crate) fn event(self, event: &str) -> Script {
        self.send(&chunk(event))
    }

    pub(crate) fn wait(mut self, time: Duration) -> Script {
        self.0.push(Step::Wait(time));
        self
    }

    pub(crate) fn jump(mut self, time: Duration) -> Script {
        self.0.push(Step::Jump(time));
        self
    }

    pub(crate) fn hang(mut self) -> Script {
        self.0.push(Step::Hang);
        self
    }

    pub(crate) fn reset(mut self) -> Script {
        self.0.push(Step::Reset);
        self
    }

    pub(crate) fn early(mut self) -> Script {
        self.0.insert(0, Step::Early);
        self
    }

    pub(crate) fn is_early(&self) -> bool {
        matches!(self.0.first(), Some(Step::Early))
    }

    pub(crate) fn close(mut self) -> Script {
        self.0.push(Step::Close);
        self
    }
}

/// One chunk of a chunked body.
pub(crate) fn chunk(text: &str) -> String {
    format!("{:x}\r\n{text}\r\n", text.len())
}
