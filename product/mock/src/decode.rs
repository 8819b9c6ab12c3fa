//! Decode legs: the state of their parameters decides between the recorded answers and ends.

use std::time::Duration;

use serde_json::Value;

use crate::engine::{Counts, LoadFailure, Role};
use crate::exchange::{ALL, Answer, blocks};
use crate::leases::End;
use crate::nearest;
use crate::state::{MockState, Reply, Request};

/// The time until a handshake with a dead side channel fails.
const HANDSHAKE: Duration = Duration::from_secs(5);

/// The members that name the blocks of another engine.
const REMOTE: [&str; 5] =
    ["remote_engine_id", "remote_block_ids", "remote_request_id", "remote_host", "remote_port"];

/// The parameters of a leg, compared with those that a prefill engine handed out.
enum Sent {
    /// The same.
    Same,
    /// Too few blocks for the prompt.
    FewBlocks,
    /// An engine id that does not exist, behind a side channel that lives.
    UnknownEngine,
    /// A side channel without an engine.
    DeadChannel,
    /// The decode engine's own: there is no handshake with itself.
    Own,
}

impl MockState {
    /// Answers a decode leg, or names its differences from the recordings.
    pub(crate) fn decode(&mut self, at: usize, request: &Request) -> Result<Reply, String> {
        let mut body = request.body.clone();
        let params = body.as_object_mut().and_then(|body| body.remove("kv_transfer_params"));
        let params = params.filter(|params| !params.is_null());
        let role = self.engines[at].role;
        if let (Role::Decode, Some(reply)) = (role, params.as_ref().and_then(fatal)) {
            return Ok(reply);
        }
        let known = MockState::known(Role::Decode, &request.path, &body);
        let Some(first) = known.first() else {
            return Err(nearest::differences(role, &request.path, &request.body));
        };
        let Some(params) = params else {
            let answer = ALL[*first].answer.clone();
            self.count(at, &answer, |counts| &mut counts.alone);
            return Ok(Reply::now(answer));
        };
        let (engine, name, sent) = self.compare(at, &params)?;
        let Some(exchange) = known.iter().map(|index| &ALL[*index]).find(|one| one.name == name)
        else {
            return Err(format!("kv_transfer_params: those of a prefill of `{name}`"));
        };
        let answer = exchange.answer.clone();
        let dead = self.engines[engine].death.is_some();
        match sent {
            // A refusal comes before the KV.
            Sent::Same if !dead || answer.status != 200 => Ok(self.fetch(at, &params, answer)),
            Sent::Same => self.not_loaded(at, request, answer, (1, HANDSHAKE)),
            Sent::DeadChannel | Sent::Own => self.not_loaded(at, request, answer, (2, HANDSHAKE)),
            Sent::UnknownEngine => self.not_loaded(at, request, answer, (1, Duration::ZERO)),
            Sent::FewBlocks => Ok(Reply::Last(Answer::failure("engine-died"))),
        }
    }

    /// Finds the parameters' prefill engine and recording, and the changes since then.
    fn compare(
        &mut self,
        at: usize,
        params: &Value,
    ) -> Result<(usize, &'static str, Sent), String> {
        let Some(lease) = self.leases.find(&params["remote_request_id"]) else {
            let problem = "not of a prefill engine of this fleet";
            return Err(format!("kv_transfer_params.remote_request_id: {problem}"));
        };
        let found = nearest::members("kv_transfer_params.", &lease.params, params);
        let changed: Vec<&str> =
            REMOTE.into_iter().filter(|name| lease.params[*name] != params[*name]).collect();
        let sent = match (&changed[..], found.len()) {
            ([], 0) if lease.engine == at => Sent::Own,
            ([], 0) if self.engines[at].role == Role::Decode => Sent::Same,
            ([], 0) => return Err("leg: a decode leg of another prefill engine".to_owned()),
            (["remote_block_ids"], 1) if blocks(params) < lease.blocks => Sent::FewBlocks,
            (["remote_engine_id"], 1) => Sent::UnknownEngine,
            (["remote_engine_id", "remote_port"], 2) => Sent::DeadChannel,
            _ => return Err(found.join("; ")),
        };
        Ok((lease.engine, lease.name, sent))
    }

    /// The engine reads the blocks and gives them back, or gives them back with its refusal.
    fn fetch(&mut self, at: usize, params: &Value, answer: Answer) -> Reply {
        if let Some(lease) = self.leases.find(&params["remote_request_id"]) {
            let (engine, blocks, end) = (lease.engine, lease.blocks, lease.end);
            lease.end.get_or_insert(End::Released);
            if answer.status == 200 {
                // Used again, all but the last block is in the decode engine's own cache.
                let fetched = if end == Some(End::Released) { 1 } else { blocks };
                self.engines[at].counts.fetched_blocks += fetched;
            }
            self.engines[engine].counts.late += u64::from(end.is_some());
        }
        self.count(at, &answer, |counts| &mut counts.decodes);
        Reply::now(answer)
    }

    /// The KV does not arrive: so many transfers fail, and the answer comes after a time. The prefill
    /// engine's blocks stay held.
    fn not_loaded(
        &mut self,
        at: usize,
        request: &Request,
        answer: Answer,
        (failed, timeout): (u64, Duration),
    ) -> Result<Reply, String> {
        let counts = &mut self.engines[at].counts;
        if self.policy == LoadFailure::Recompute {
            counts.failed_transfers += 1;
            counts.alone += 1;
            return Ok(Reply::now(answer));
        }
        let openai = ["/v1/completions", "/v1/chat/completions"].contains(&&*request.path);
        if !openai || answer.streams() {
            return Err("KV that does not arrive for a stream, or on this path".to_owned());
        }
        counts.failed_transfers += failed;
        counts.failures += 1;
        Ok(Reply::After(timeout, Answer::failure("not-loaded")))
    }

    fn count(&mut self, at: usize, answer: &Answer, good: impl FnOnce(&mut Counts) -> &mut u64) {
        let counts = &mut self.engines[at].counts;
        *(if answer.status == 200 { good(counts) } else { &mut counts.failures }) += 1;
    }
}

/// The end of a decode engine by parameters that are only partly there, whatever the request.
fn fatal(params: &Value) -> Option<Reply> {
    let missing: Vec<&str> = REMOTE.into_iter().filter(|name| params[*name].is_null()).collect();
    match (params["do_remote_prefill"] == true, &missing[..]) {
        (true, all) if all.len() == REMOTE.len() => {
            Some(Reply::Last(Answer::failure("engine-died")))
        }
        (true, ["remote_request_id"]) => Some(Reply::Hangs),
        _ => None,
    }
}
