//! Requests of a prefill engine.

use serde_json::Value;
use tokio::time::Instant;

use crate::engine::Role;
use crate::exchange::{ALL, Answer, Exchange};
use crate::nearest;
use crate::state::{MockState, Reply, Request};

impl MockState {
    /// Answers a request of a prefill engine, or names its differences from the recordings.
    pub(crate) fn prefill(
        &mut self,
        at: usize,
        request: &Request,
        now: Instant,
    ) -> Result<Reply, String> {
        let (path, body) = (&*request.path, &request.body);
        if body["kv_transfer_params"]["do_remote_prefill"] == true {
            return self.decode(at, request);
        }
        let known = MockState::known(Role::Prefill, path, body);
        let fresh = known.iter().find(|index| !self.answered.contains(&(at, **index)));
        let Some(index) = fresh.or(known.last()).copied() else {
            return Err(nearest::differences(Role::Prefill, path, body));
        };
        if fresh.is_some() {
            self.answered.push((at, index));
        }
        self.engines[at].counts.prefills += 1;
        let exchange = &ALL[index];
        // Of several answers, one is handed over. The others' blocks are held as well.
        for _ in 1..exchange.answers {
            self.leases.grant(at, exchange.name, Value::Null, exchange.blocks, now);
        }
        let (params, answer) = self.hand_over(at, exchange);
        self.leases.grant(at, exchange.name, params, exchange.blocks, now);
        Ok(Reply::now(answer))
    }

    /// The answer with the engine's own id and a fresh `remote_request_id`, byte for byte otherwise.
    fn hand_over(&mut self, at: usize, exchange: &Exchange) -> (Value, Answer) {
        let mut answer = exchange.answer.clone();
        let Some(mut params) = exchange.params.clone() else { return (Value::Null, answer) };
        self.handed += 1;
        let old = params["remote_request_id"].as_str().unwrap_or_default().to_owned();
        let stem = old.rsplit_once('-').map_or("", |(stem, _)| stem);
        let fresh = format!("{stem}-{:08x}", self.handed);
        let mut text = String::from_utf8_lossy(&answer.body).replace(&old, &fresh);
        let engine = params["remote_engine_id"].as_str().unwrap_or_default();
        text = text.replace(engine, &self.engines[at].id);
        params["remote_request_id"] = fresh.into();
        params["remote_engine_id"] = self.engines[at].id.clone().into();
        answer.body = text.into();
        (params, answer)
    }
}
