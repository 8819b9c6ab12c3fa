//! The state of a fleet, and its answer to each request.
//!
//! It gets the time with each request and opens no socket, so a request and its state decide the
//! answer.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use crate::exchange::{ALL, Answer};
use crate::leases::Leases;
use crate::nearest;

/// The engine's part of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Computes prompts and holds their blocks.
    Prefill,
    /// Fetches blocks and writes answers.
    Decode,
}

impl Role {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Role::Prefill => "prefill",
            Role::Decode => "decode",
        }
    }
}

/// A decode engine's reaction to KV that does not arrive: vLLM's `kv_load_failure_policy`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LoadFailure {
    /// The request fails with a 500.
    #[default]
    Fail,
    /// The decode engine computes the prompt.
    Recompute,
}

/// Counts of one engine since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Prefill legs answered.
    pub prefills: u64,
    /// Decode legs answered with the KV of a prefill engine.
    pub decodes: u64,
    /// Decode legs without parameters, whose prompt the engine computed.
    pub alone: u64,
    /// Requests that failed or were refused as recorded.
    pub failures: u64,
    /// Requests that no recording covers.
    pub uncovered: u64,
    /// Blocks that the engine holds for decode legs now.
    pub held_blocks: u64,
    /// Requests whose blocks no decode engine fetched within the lease.
    pub expired: u64,
    /// Decode legs whose blocks the engine did not hold any more: used twice, or too late. A real
    /// decode engine then reads other KV and answers 200.
    pub late: u64,
    /// Transfers and handshakes that failed at a decode engine.
    pub failed_transfers: u64,
    /// Blocks that a decode engine fetched.
    pub fetched_blocks: u64,
    /// Decode legs that wait for KV now.
    pub deferred: u64,
}

/// One engine.
pub(crate) struct EngineState {
    pub(crate) role: Role,
    /// Its id in parameters.
    pub(crate) id: String,
    pub(crate) counts: Counts,
    /// The cause of its end.
    pub(crate) death: Option<&'static str>,
}

/// A request for tokens.
pub(crate) struct Request {
    pub(crate) path: String,
    /// Names of headers, in lower case.
    pub(crate) headers: Vec<String>,
    pub(crate) body: Value,
}

/// An engine's reaction.
pub(crate) enum Reply {
    /// An answer after a time.
    After(Duration, Answer),
    /// An answer, the engine's last.
    Last(Answer),
    /// No answer. The engine ends when the client disconnects.
    Hangs,
}

impl Reply {
    pub(crate) fn now(answer: Answer) -> Reply {
        Reply::After(Duration::ZERO, answer)
    }
}

/// Most texts of uncovered requests; further ones are only counted.
const MOST_TEXTS: usize = 100;

/// The engines of a fleet and all that connects them.
pub(crate) struct State {
    pub(crate) engines: Vec<EngineState>,
    pub(crate) policy: LoadFailure,
    pub(crate) leases: Leases,
    pub(crate) uncovered: Vec<String>,
    /// Number of parameters handed out.
    pub(crate) handed: u64,
    /// The exchanges that each engine has answered.
    pub(crate) answered: Vec<(usize, usize)>,
}

impl State {
    /// Answers a request of the engine `at`.
    pub(crate) fn handle(&mut self, at: usize, request: &Request, now: Instant) -> Reply {
        self.expire(now);
        let reply = match nearest::headers(request) {
            Some(difference) => Err(difference),
            None if !request.body.is_object() => Err("the body is not a JSON object".to_owned()),
            None => match self.engines[at].role {
                Role::Prefill => self.prefill(at, request, now),
                Role::Decode => self.decode(at, request),
            },
        };
        reply.unwrap_or_else(|difference| Reply::now(self.uncovered(at, request, &difference)))
    }

    /// Counts the leases that are over.
    pub(crate) fn expire(&mut self, now: Instant) {
        for engine in self.leases.expire(now) {
            self.engines[engine].counts.expired += 1;
        }
    }

    /// Ends an engine, unless it has ended.
    pub(crate) fn end(&mut self, at: usize, cause: &'static str) {
        self.engines[at].death.get_or_insert(cause);
        self.leases.lose(at);
    }

    /// The indices of the exchanges with this request.
    pub(crate) fn known(role: Role, path: &str, body: &Value) -> Vec<usize> {
        let all = ALL
            .iter()
            .enumerate()
            .filter(|(_, known)| known.role == role && known.path == path && known.body == *body);
        all.map(|(index, _)| index).collect()
    }

    fn uncovered(&mut self, at: usize, request: &Request, difference: &str) -> Answer {
        self.engines[at].counts.uncovered += 1;
        // The path is a client's text too.
        let known = ALL.iter().any(|known| known.path == request.path);
        let path = if known { &*request.path } else { "another path" };
        let role = self.engines[at].role.name();
        let message = format!("{role} engine {at}, {path}: not recorded: {difference}");
        if self.uncovered.len() < MOST_TEXTS {
            self.uncovered.push(message.clone());
        }
        let error = json!({"message": message, "type": "Uncovered", "param": null, "code": 500});
        let headers = vec![("content-type".to_owned(), "application/json".to_owned())];
        Answer { status: 500, headers, body: json!({"error": error}).to_string().into() }
    }
}
