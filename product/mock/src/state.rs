//! The state of a fleet, and its answer to each request.
//!
//! It gets the time with each request and opens no socket, so a request and its state decide the
//! answer.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use crate::engine::{EngineState, LoadFailure, Role};
use crate::exchange::{ALL, Answer};
use crate::leases::Leases;
use crate::nearest;

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
pub(crate) struct MockState {
    pub(crate) engines: Vec<EngineState>,
    pub(crate) policy: LoadFailure,
    pub(crate) leases: Leases,
    pub(crate) uncovered: Vec<String>,
    /// Number of parameters handed out.
    pub(crate) handed: u64,
    /// The exchanges that each engine has answered.
    pub(crate) answered: Vec<(usize, usize)>,
}

impl MockState {
    /// Answers a request of the engine `at`.
    pub(crate) fn handle(&mut self, at: usize, request: &Request, now: Instant) -> Reply {
        self.expire(now);
        let reply = match nearest::headers(&request.headers) {
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
