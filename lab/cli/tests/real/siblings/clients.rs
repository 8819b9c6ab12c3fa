//! Clients that hold conversations through several gateways, as a load balancer sends them: a connection
//! that fails before an answer, and a 503, are tried again at the next gateway.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use meridian_fleet::Client;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::common::text;

/// Turns of a conversation.
const TURNS: u64 = 5;
/// Words of the system prompt that all share, and of a question.
const WORDS: [usize; 2] = [300, 100];
/// Attempts of a request, at one gateway after the other.
const ATTEMPTS: usize = 30;

/// The ends of requests.
#[derive(Debug, Default)]
pub(crate) struct Ends {
    pub(crate) sent: AtomicU64,
    /// Complete answers.
    pub(crate) whole: AtomicU64,
    /// Attempts without an answer.
    pub(crate) moved: AtomicU64,
    /// Of those, refusals.
    pub(crate) refused: AtomicU64,
}

pub(crate) struct Clients {
    pub(crate) ends: Arc<Ends>,
    tasks: JoinSet<()>,
    stop: Arc<AtomicBool>,
}

struct One {
    number: u64,
    gateways: Vec<String>,
    ends: Arc<Ends>,
    client: Client,
}

impl Clients {
    pub(crate) fn start(count: u64, gateways: &[String]) -> Clients {
        let (ends, stop) = (Arc::<Ends>::default(), Arc::<AtomicBool>::default());
        let mut tasks = JoinSet::new();
        for number in 0..count {
            let (gateways, ends) = (gateways.to_vec(), ends.clone());
            let one = One { number, gateways, ends, client: Client::new() };
            tasks.spawn(one.talk(stop.clone()));
        }
        Clients { ends, tasks, stop }
    }

    /// Waits for the requests in flight. Fails if a client had an answer that it may not have.
    pub(crate) async fn end(self) -> Arc<Ends> {
        self.stop.store(true, Relaxed);
        self.tasks.join_all().await;
        self.ends
    }
}

impl One {
    async fn talk(self, stop: Arc<AtomicBool>) {
        let system = json!({"role": "system", "content": text(0, WORDS[0])});
        for session in 0.. {
            let mut messages = vec![system.clone()];
            for turn in 0..TURNS {
                if stop.load(Relaxed) {
                    return;
                }
                let seed = 1 + self.number + 1_000 * (turn + TURNS * session);
                messages.push(json!({"role": "user", "content": text(seed, WORDS[1])}));
                let answer = self.ask(&messages, session + turn).await;
                messages.push(answer["choices"][0]["message"].clone());
            }
        }
    }

    async fn ask(&self, messages: &[Value], first: u64) -> Value {
        let body = json!({"model": "llama-3.1-8b", "messages": messages, "max_tokens": 12});
        self.ends.sent.fetch_add(1, Relaxed);
        for attempt in 0..ATTEMPTS {
            let at = ((first + self.number) as usize + attempt) % self.gateways.len();
            let url = format!("{}/v1/chat/completions", self.gateways[at]);
            match self.client.open(&url, body.to_string(), &[]).await {
                Ok(answer) if answer.status == 503 => _ = self.ends.refused.fetch_add(1, Relaxed),
                Err(_) => {}
                Ok(answer) => {
                    let answer = answer.whole().await.expect("an answer that began is whole");
                    assert_eq!(answer.status, 200, "{answer:?}");
                    self.ends.whole.fetch_add(1, Relaxed);
                    return answer.value();
                }
            }
            self.ends.moved.fetch_add(1, Relaxed);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("no gateway answers");
    }
}
