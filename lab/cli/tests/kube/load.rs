//! Clients with conversations, which record whether an answer was whole and came from a replica that may
//! have got the request.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use meridian_fleet::Client;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::common::text;

const TURNS: u64 = 4;
/// Words of the common system prompt, and of a question.
const WORDS: [usize; 2] = [200, 60];

/// The ends of requests.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ends {
    pub(crate) whole: u64,
    /// Refused, cut off, or answered by an error.
    pub(crate) broken: u64,
    /// Answered by a replica that could get no requests when they began.
    pub(crate) late: u64,
}

#[derive(Default)]
struct Record {
    /// The replicas that may get no requests, and since when.
    forbidden: Mutex<BTreeMap<String, Instant>>,
    ends: Mutex<Ends>,
    stop: AtomicBool,
}

pub(crate) struct Load {
    record: Arc<Record>,
    tasks: JoinSet<()>,
}

impl Load {
    pub(crate) fn start(clients: u64, url: &str) -> Load {
        let (record, mut tasks) = (Arc::<Record>::default(), JoinSet::new());
        for number in 0..clients {
            tasks.spawn(talk(number, format!("{url}/v1/chat/completions"), record.clone()));
        }
        Load { record, tasks }
    }

    /// From now on no request may be sent to this replica.
    pub(crate) fn forbids(&self, replica: &str) {
        self.record.forbidden.lock().unwrap().insert(replica.to_owned(), Instant::now());
    }

    pub(crate) fn allows(&self, replica: &str) {
        self.record.forbidden.lock().unwrap().remove(replica);
    }

    /// Waits for the requests in flight.
    pub(crate) async fn end(self) -> Ends {
        self.record.stop.store(true, Relaxed);
        self.tasks.join_all().await;
        *self.record.ends.lock().unwrap()
    }
}

async fn talk(number: u64, url: String, record: Arc<Record>) {
    let client = Client::new();
    for session in 0.. {
        let mut messages = vec![json!({"role": "system", "content": text(0, WORDS[0])})];
        for turn in 0..TURNS {
            if record.stop.load(Relaxed) {
                return;
            }
            let seed = 1 + number + 1_000 * (turn + TURNS * session);
            messages.push(json!({"role": "user", "content": text(seed, WORDS[1])}));
            record.ask(&client, &url, &messages, turn % 2 == 0).await;
            messages.push(json!({"role": "assistant", "content": "yes"}));
        }
    }
}

impl Record {
    async fn ask(&self, client: &Client, url: &str, messages: &[Value], stream: bool) {
        let body = json!({"model": "llama-3.1-8b", "messages": messages, "max_tokens": 24, "stream": stream});
        let begun = Instant::now();
        let answer = client.post(url, body.to_string()).await;
        let mut ends = self.ends.lock().unwrap();
        let is_whole = |answer: &meridian_fleet::Answer| {
            let end: &[u8] = if stream { b"data: [DONE]\n\n" } else { b"}" };
            answer.status == 200 && answer.body.trim_ascii_end().ends_with(end.trim_ascii_end())
        };
        match answer {
            Ok(answer) if is_whole(&answer) => {
                ends.whole += 1;
                let replica = answer.headers["x-meridian-replica"].to_str().unwrap();
                let since = self.forbidden.lock().unwrap().get(replica).copied();
                ends.late += u64::from(since.is_some_and(|since| since < begun));
            }
            answer => {
                ends.broken += 1;
                println!("broken: {answer:?}");
            }
        }
    }
}
