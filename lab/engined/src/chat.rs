//! One completion request, from parsed body to response: /v1/chat/completions and /v1/completions.

use crate::api::{BadRequest, Common};
use crate::body::{Events, ReplyBody};
use crate::kv::{Export, Import, Params, Part};
use crate::mailbox::{Mailbox, Progress};
use crate::prompt::Prompt;
use crate::pump::Command;
use crate::render::{RenderKind, Shape};
use crate::reply::Reply;
use meridian_base::{RequestId, mix};
use meridian_engine::{Refusal, StopReason, Submission, Usage, blocks_for};
use serde_json::Value;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::oneshot;
use tokio::time::Instant;

/// A request in the engine. If dropped before its end, it is aborted.
#[derive(Debug)]
pub(crate) struct Ticket {
    id: RequestId,
    mailbox: Arc<Mailbox>,
    commands: UnboundedSender<Command>,
}

impl Ticket {
    pub(crate) fn submit(
        submission: Submission,
        part: Option<Box<Part>>,
        adapter: Option<Arc<str>>,
        tokens: bool,
        commands: &UnboundedSender<Command>,
    ) -> Ticket {
        let (id, mailbox) = (submission.id, Arc::new(Mailbox::new(tokens)));
        if commands.send(Command::Submit(submission, mailbox.clone(), part, adapter)).is_err() {
            mailbox.update(|progress| progress.closed = true);
        }
        Ticket { id, mailbox, commands: commands.clone() }
    }

    pub(crate) fn poll_until(
        &self,
        cx: &mut Context<'_>,
        ready: impl FnOnce(&Progress) -> bool,
    ) -> Poll<Progress> {
        self.mailbox.poll_until(cx, ready)
    }

    async fn accepted(&self) -> Progress {
        poll_fn(|cx| self.poll_until(cx, |progress| progress.accepted)).await
    }

    async fn over(&self) -> Progress {
        poll_fn(|cx| self.poll_until(cx, Progress::is_over)).await
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if !self.mailbox.progress().is_over() {
            // Without a pump there is nothing to abort.
            let _ = self.commands.send(Command::Abort(self.id));
        }
    }
}

/// A request that is ready for the engine.
#[derive(Debug)]
pub(crate) struct Completion {
    shape: Shape,
    reply: Reply,
    submission: Submission,
    stream: bool,
    usage: bool,
    counts: bool,
    part: Option<Box<Part>>,
    transfer: Answered,
    adapter: Option<Arc<str>>,
    /// Tokens after which a stream ends with an error.
    pub(crate) fails_after: Option<u32>,
}

/// The `kv_transfer_params` of a complete answer.
#[derive(Debug)]
enum Answered {
    /// Left out.
    Absent,
    /// Null, the answer to a decode leg.
    Null,
    /// Those of the held blocks, once they are.
    Held(oneshot::Receiver<Value>),
}

impl Answered {
    async fn value(self) -> Option<Value> {
        match self {
            Answered::Absent => None,
            Answered::Null => Some(Value::Null),
            Answered::Held(params) => Some(params.await.unwrap_or(Value::Null)),
        }
    }
}

/// Why a completion failed.
#[derive(Debug)]
pub(crate) enum Failure {
    Refused(Refusal),
    /// The KV of its prompt did not arrive.
    Kv,
    /// The engine is shutting down.
    Closed,
}

/// The server's part of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Server {
    pub(crate) number: u64,
    pub(crate) seed: u64,
    pub(crate) created: u64,
    pub(crate) max_model_len: u32,
    /// When the first token is due, if the request has an objective.
    pub(crate) due: Option<Instant>,
}

impl Completion {
    /// Checks a parsed body and computes the reply.
    pub(crate) fn new(
        kind: RenderKind,
        body: &Common<'_>,
        prompt: Prompt,
        model: &str,
        params: Params,
        context: Server,
    ) -> Result<Completion, BadRequest> {
        if body.n.is_some_and(|n| n != 1) {
            return Err("n is not 1: this engine gives one choice a request".to_owned());
        }
        let seed = body.seed.map_or(context.seed, |seed| mix(context.seed, seed as u64));
        let reply = prompt.reply(seed);
        // OpenAI's default limit for text completions is 16 tokens; a chat has none.
        let default = (kind == RenderKind::Text).then_some(16);
        let cap = body.cap()?.or(default);
        let prompt_tokens = prompt.tokens();
        params.check_blocks(blocks_for(prompt_tokens))?;
        let shape = Shape::new(kind, context.number, model, context.created);
        let suffix = mix(context.seed, context.number) as u32;
        let (part, transfer) = leg(params, &prompt, context.due, || shape.internal_id(suffix));
        let room = context.max_model_len.saturating_sub(prompt_tokens);
        let (reply_tokens, max_tokens) = match cap {
            Some(cap) => (u32::MAX, cap),
            None => (reply.natural_tokens(), u32::MAX),
        };
        let ahead = reply_tokens.min(max_tokens).min(room);
        let submission = Submission {
            id: RequestId(context.number),
            prompt_tokens,
            reply_tokens,
            max_tokens,
            blocks: prompt.blocks(&reply, ahead),
        };
        let (stream, usage) = (body.stream.unwrap_or(false), body.wants_usage());
        let counts = body.wants_counts();
        Ok(Completion {
            shape,
            reply,
            submission,
            stream,
            usage,
            counts,
            part,
            transfer,
            adapter: None,
            fails_after: None,
        })
    }

    /// The same with an adapter.
    pub(crate) fn with(self, adapter: Option<Arc<str>>) -> Completion {
        Completion { adapter, ..self }
    }

    pub(crate) fn is_stream(&self) -> bool {
        self.stream
    }

    /// Runs the request: a stream is returned once the engine has accepted it, a complete answer at
    /// the end.
    pub(crate) async fn run(
        self,
        commands: &UnboundedSender<Command>,
    ) -> Result<ReplyBody, Failure> {
        let counts = self.counts.then_some(self.submission.prompt_tokens);
        let ticket =
            Ticket::submit(self.submission, self.part, self.adapter, self.stream, commands);
        if let Some(why) = ticket.accepted().await.refused {
            return Err(Failure::Refused(why));
        }
        if self.stream {
            let events = Events {
                ticket,
                shape: self.shape,
                reply: self.reply,
                usage: self.usage,
                counts,
                written: 0,
                over: false,
                fails_after: self.fails_after,
            };
            return Ok(ReplyBody::Stream(Box::new(events)));
        }
        let (why, usage): (StopReason, Usage) =
            ticket.over().await.finished.ok_or(Failure::Closed)?;
        if why == StopReason::Error {
            return Err(Failure::Kv);
        }
        let transfer = self.transfer.value().await;
        Ok(ReplyBody::whole(self.shape.whole(&self.reply, why, &usage, transfer)))
    }
}

/// The part of a request that its params ask for, and the params of its answer.
fn leg(
    params: Params,
    prompt: &Prompt,
    due: Option<Instant>,
    name: impl FnOnce() -> String,
) -> (Option<Box<Part>>, Answered) {
    match params {
        Params::Absent => (None, Answered::Absent),
        Params::Prefill => {
            let (reply, held) = oneshot::channel();
            let export = Export { name: name(), contents: prompt.contents(), due, reply };
            (Some(Box::new(Part::Prefill(export))), Answered::Held(held))
        }
        Params::Decode(remote) => {
            let import = Import { remote, contents: prompt.contents() };
            (Some(Box::new(Part::Decode(import))), Answered::Null)
        }
    }
}
