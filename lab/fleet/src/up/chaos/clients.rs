//! Clients that know the expected answers. They send one request after the other, to the gateway of
//! their region, and if that does not answer, to the next nearest; or to the one that a name leads to.
//!
//! They retry like an SDK: a refusal that allows a retry (429, 5xx) and a connection that fails
//! before an answer starts are retried; an answer that breaks off is not.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use meridian_base::Rng;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::super::world::World;
use super::super::{Options as Up, tenants};
use super::answers::{self, End, Read};
use super::target::Target;
use crate::{Client, EngineSpec, Error, Process, Result, Stream};

/// A request without an answer after this time is lost.
const PATIENCE: Duration = Duration::from_secs(60);
/// Pause between two attempts.
const REST: Duration = Duration::from_millis(300);
/// Longest pause of a client between two requests.
const THINK_MS: usize = 400;
/// Fewest and most tokens of an answer.
const TOKENS: [usize; 2] = [8, 40];

/// Speed of the engine with the expected answers, relative to the others.
const REFERENCE_SPEED: f64 = 1000.0;

/// An engine that no gateway uses: all others give the same answer to a prompt.
pub(super) async fn reference(world: &World, up: &Up) -> Result<Process> {
    let spec = EngineSpec { time_scale: REFERENCE_SPEED, seed: up.seed, ..EngineSpec::default() };
    world.fleet.engine("reference", &spec).await
}

/// What clients send, and how long they wait.
#[derive(Debug, Clone, Copy)]
pub(super) struct Habits {
    /// Clients per region: of the free tenant, and of the one whose requests stay in one region.
    pub(super) clients: [usize; 2],
    /// A silent gateway is left after this time.
    pub(super) head: Duration,
    /// Most repetitions of the marker before the question: long prompts that nothing has cached.
    pub(super) repeats: usize,
    /// Whether answers are never streams. The request of one that breaks off is sent again.
    pub(super) whole: bool,
}

impl Habits {
    /// Short prompts of both tenants.
    pub(super) const USUAL: Habits =
        Habits { clients: [3, 2], head: Duration::from_secs(6), repeats: 1, whole: false };

    /// Whole answers.
    pub(super) const WHOLE: Habits = Habits { clients: [3, 0], whole: true, ..Habits::USUAL };
}

/// The outcome of one request.
#[derive(Debug, Clone)]
pub(super) struct Record {
    /// Its id at the engines.
    pub(super) id: String,
    /// Whether its tenant's requests stay in one region.
    pub(super) kept: bool,
    pub(super) sent: Instant,
    pub(super) ended: Instant,
    /// From the first attempt to the first piece; only for streams.
    pub(super) ttft: Option<Duration>,
    /// Attempts without an answer.
    pub(super) moved: u32,
    /// Of those, refusals.
    pub(super) refused: u32,
    pub(super) end: End,
}

/// All clients of a run.
pub(super) struct Crowd {
    tasks: JoinSet<()>,
    stop: CancellationToken,
    records: Arc<Mutex<Vec<Record>>>,
}

struct One {
    name: String,
    kept: bool,
    habits: Habits,
    target: Target,
    /// Address of the engine with the expected answers.
    reference: String,
    client: Client,
    rng: Rng,
}

impl Crowd {
    /// Starts the clients of all regions; `target` makes the gateways of one client of a region.
    pub(super) fn start(
        world: &World,
        target: fn(&World, usize) -> Result<Target>,
        reference: &str,
        seed: u64,
        habits: Habits,
    ) -> Result<Crowd> {
        let (mut tasks, stop) = (JoinSet::new(), CancellationToken::new());
        let records = Arc::new(Mutex::new(Vec::new()));
        let mut number = 0;
        let kind = if habits.whole { "name" } else { "free" };
        for (at, region) in world.regions.iter().enumerate() {
            for (kept, count) in [(false, habits.clients[0]), (true, habits.clients[1])] {
                for nth in 0..count {
                    number += 1;
                    let tenant = if kept { "kept" } else { kind };
                    let one = One {
                        name: format!("{tenant}-{}-{nth}", region.name),
                        kept,
                        habits,
                        target: target(world, at)?,
                        reference: reference.to_owned(),
                        client: Client::keeping(),
                        rng: Rng::new(seed).fork(number),
                    };
                    tasks.spawn(one.ask_until(stop.clone(), records.clone()));
                }
            }
        }
        Ok(Crowd { tasks, stop, records })
    }

    /// Waits until every client has finished its request, and returns all outcomes.
    pub(super) async fn end(mut self) -> Vec<Record> {
        self.stop.cancel();
        while self.tasks.join_next().await.is_some() {}
        let mut all = self.records.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *all)
    }
}

impl One {
    async fn ask_until(mut self, stop: CancellationToken, records: Arc<Mutex<Vec<Record>>>) {
        let mut number = 0_u64;
        while !stop.is_cancelled() {
            number += 1;
            let id = format!("{}-{number}", self.name);
            // Without the expected answer there is nothing to compare with.
            let Ok((body, expected)) = self.prepare(&id).await else { continue };
            let record = self.ask(id, &body, &expected).await;
            records.lock().unwrap_or_else(PoisonError::into_inner).push(record);
            let think = Duration::from_millis(self.rng.below(THINK_MS) as u64);
            tokio::time::sleep(think).await;
        }
    }

    /// A prompt with a unique marker, and its expected answer.
    async fn prepare(&mut self, id: &str) -> Result<(Value, String)> {
        let tokens = TOKENS[0] + self.rng.below(TOKENS[1] - TOKENS[0]);
        let system = format!("You are the assistant of {}. ", &self.name[..4]).repeat(40);
        let marker = format!("marker {id}: ").repeat(1 + self.rng.below(self.habits.repeats));
        let mut body = json!({
            "model": "llama-3.1-8b",
            "messages": [
                {"role": "system", "content": system},
                {"role": "user", "content": format!("{marker}what is this?")},
            ],
            "max_tokens": tokens,
            "temperature": 0,
        });
        let url = format!("{}/v1/chat/completions", self.reference);
        let answer = self.client.post(&url, body.to_string()).await?.value();
        let expected = answer["choices"][0]["message"]["content"].as_str().map(str::to_owned);
        let what = "no answer to compare with".to_owned();
        let expected = expected.ok_or(Error::Answer { url, what })?;
        body["stream"] = (self.rng.below(4) > 0 && !self.habits.whole).into();
        Ok((body, expected))
    }

    async fn ask(&mut self, id: String, body: &Value, expected: &str) -> Record {
        let (sent, stream) = (Instant::now(), body["stream"] == true);
        let text = body.to_string();
        let mut record = Record {
            id,
            kept: self.kept,
            sent,
            ended: sent,
            ttft: None,
            moved: 0,
            refused: 0,
            end: End::Lost,
        };
        while sent.elapsed() < PATIENCE {
            match self.send(&record.id, record.moved, &text).await {
                Some(answer) if matches!(answer.status, 429 | 500..=599) => record.refused += 1,
                Some(answer) => {
                    let read = self.read(answer, stream, expected).await;
                    let again = self.habits.whole && matches!(read.end, End::Broken | End::Hung);
                    if !again {
                        record.ttft = read.first.filter(|_| stream).map(|first| first - sent);
                        record.end = read.end;
                        break;
                    }
                }
                None => self.target.failed(),
            }
            record.moved += 1;
            tokio::time::sleep(REST).await;
        }
        record.ended = Instant::now();
        record
    }

    async fn send(&mut self, id: &str, failed: u32, body: &str) -> Option<Stream> {
        let key = if self.kept { tenants::EU_ONLY } else { tenants::VISITORS };
        let bearer = format!("Bearer {key}");
        let headers = [("authorization", bearer.as_str()), ("x-request-id", id)];
        let url = format!("{}/v1/chat/completions", self.target.next(failed).await?);
        let asked = self.client.open(&url, body.to_owned(), &headers);
        tokio::time::timeout(self.habits.head, asked).await.ok()?.ok()
    }

    async fn read(&self, answer: Stream, stream: bool, expected: &str) -> Read {
        let status = answer.status;
        if status != 200 {
            let end = match status {
                403 => End::Denied,
                _ => End::Odd(format!("status {status}")),
            };
            return Read { end, first: None };
        }
        let region = answer.header("x-meridian-region").unwrap_or_default().to_owned();
        let mut read = match stream {
            true => answers::events(answer, expected).await,
            false => answers::whole(answer, expected).await,
        };
        if self.kept && region != tenants::REGION {
            read.end = End::Forbidden;
        }
        read
    }
}
