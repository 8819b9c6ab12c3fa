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

/// Clients whose requests may be served anywhere, those whose requests stay in one region, and those
/// that know no gateway but the fleet's name. The ids of their requests start with these words.
const ANYWHERE: &str = "anywhere";
pub(super) const EU_ALONE: &str = "eu-alone";
const BY_NAME: &str = "by-name";

/// What clients send, and how long they wait.
#[derive(Debug, Clone, Copy)]
pub(super) struct Habits {
    /// Clients per region: of the free tenant, and of the one whose requests stay in one region.
    pub(super) clients: [usize; 2],
    /// A silent gateway is left after this time.
    pub(super) head: Duration,
    /// Most repetitions of the marker before the question: long prompts that nothing has cached.
    pub(super) repeats: usize,
    /// Whether clients resolve the fleet's name, and keep answers for their TTL. Their answers are
    /// never streams, and the request of one that breaks off is sent again.
    pub(super) by_name: bool,
}

impl Habits {
    /// Short prompts of both tenants.
    pub(super) const USUAL: Habits =
        Habits { clients: [3, 2], head: Duration::from_secs(6), repeats: 1, by_name: false };

    /// The tenants that have clients.
    pub(super) fn tenants(&self) -> impl Iterator<Item = &'static str> {
        self.each().into_iter().filter(|(_, clients)| *clients > 0).map(|(tenant, _)| tenant)
    }

    /// Each tenant, with its clients per region.
    fn each(&self) -> [(&'static str, usize); 2] {
        let free = if self.by_name { BY_NAME } else { ANYWHERE };
        [(free, self.clients[0]), (EU_ALONE, self.clients[1])]
    }

    /// Clients of the fleet's name.
    pub(super) const BY_NAME: Habits = Habits { clients: [3, 0], by_name: true, ..Habits::USUAL };
}

/// The outcome of one request.
#[derive(Debug, Clone)]
pub(super) struct Record {
    /// Its id at the engines.
    pub(super) id: String,
    pub(super) tenant: &'static str,
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
    /// Ends with it.
    reference: Option<Process>,
    tasks: JoinSet<()>,
    stop: CancellationToken,
    records: Arc<Mutex<Vec<Record>>>,
}

struct One {
    name: String,
    tenant: &'static str,
    habits: Habits,
    target: Target,
    /// Address of the engine with the expected answers.
    reference: String,
    client: Client,
    rng: Rng,
}

impl Crowd {
    /// Starts the clients of all regions, and an engine that no gateway uses: all others give the same
    /// answer to a prompt.
    pub(super) async fn start(world: &World, up: &Up, all: &[Habits], seed: u64) -> Result<Crowd> {
        let (tasks, stop) = (JoinSet::new(), CancellationToken::new());
        let records = Arc::new(Mutex::new(Vec::new()));
        let mut crowd = Crowd { reference: None, tasks, stop, records };
        if all.is_empty() {
            return Ok(crowd);
        }
        let spec =
            EngineSpec { time_scale: REFERENCE_SPEED, seed: up.seed, ..EngineSpec::default() };
        let reference = world.fleet.engine("reference", &spec).await?;
        for habits in all {
            let seed = if habits.by_name { !seed } else { seed };
            let tenants = habits.each();
            let regions = world.regions.iter().enumerate();
            let each = regions.flat_map(|(at, region)| tenants.map(|tenant| (at, region, tenant)));
            let each = each.flat_map(|(at, region, (tenant, count))| {
                (0..count).map(move |nth| (at, tenant, format!("{}-{nth}", region.name)))
            });
            for (number, (at, tenant, name)) in (1..).zip(each) {
                let one = One {
                    name: format!("{tenant}-{name}"),
                    tenant,
                    habits: *habits,
                    target: Target::of(world, at, habits.by_name)?,
                    reference: reference.said(0).to_owned(),
                    client: Client::keeping(),
                    rng: Rng::new(seed).fork(number),
                };
                crowd.tasks.spawn(one.ask_until(crowd.stop.clone(), crowd.records.clone()));
            }
        }
        crowd.reference = Some(reference);
        Ok(crowd)
    }

    /// Waits until every client has finished its request, and returns all outcomes. A client that
    /// failed is a fault.
    pub(super) async fn end(mut self, faults: &mut Vec<String>) -> Vec<Record> {
        self.stop.cancel();
        while let Some(ended) = self.tasks.join_next().await {
            faults.extend(ended.err().map(|error| format!("a client failed: {error}")));
        }
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
        body["stream"] = (self.rng.below(4) > 0 && !self.habits.by_name).into();
        Ok((body, expected))
    }

    async fn ask(&mut self, id: String, body: &Value, expected: &str) -> Record {
        let (sent, stream) = (Instant::now(), body["stream"] == true);
        let text = body.to_string();
        let mut record = Record {
            id,
            tenant: self.tenant,
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
                    let again = self.habits.by_name && matches!(read.end, End::Broken | End::Hung);
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
        let key = if self.tenant == EU_ALONE { tenants::EU_ONLY } else { tenants::VISITORS };
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
        if self.tenant == EU_ALONE && region != tenants::REGION {
            read.end = End::Forbidden;
        }
        read
    }
}
