//! The etcd of a fleet, for several control planes: its members as processes.
//!
//! A member keeps its ports and, when it is killed, its data. It is Debian's etcd (`etcd-server`);
//! requests use the JSON form of its API.

use std::io::ErrorKind;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use crate::base64::{decode, encode};
use crate::{Client, Error, Fleet, Process, Program, Result, free_port};

/// How long a member may take to answer. A guard, as for all programs.
const READY_LIMIT: Duration = Duration::from_secs(90);
/// Timeout of a request to a member that has just started.
const ASKED: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(100);

/// The members of one etcd.
#[derive(Debug)]
pub struct Etcd {
    /// The members.
    pub members: Vec<Member>,
}

/// A member, dead or alive.
#[derive(Debug)]
pub struct Member {
    /// Its name: `etcd-1`.
    pub name: String,
    /// None while it is dead.
    pub process: Option<Process>,
    client: u16,
    peer: u16,
}

/// A key and its value at some revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The key.
    pub key: String,
    /// The value.
    pub value: Vec<u8>,
}

/// An answer to a read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// The entries, and etcd's newest revision.
    At(u64, Vec<Entry>),
    /// That revision is no longer in the history.
    Compacted,
}

impl Fleet {
    /// Starts an etcd of this many members, and waits until all of them answer.
    ///
    /// # Errors
    /// If etcd is not installed, or a member does not answer.
    pub async fn etcd(&self, members: usize) -> Result<Etcd> {
        let member = |nth: usize| {
            let (client, peer) = (free_port()?, free_port()?);
            Ok(Member { name: format!("etcd-{}", nth + 1), process: None, client, peer })
        };
        let mut etcd = Etcd { members: (0..members).map(member).collect::<Result<_>>()? };
        let all: Vec<usize> = (0..members).collect();
        etcd.revive(self, &all).await?;
        Ok(etcd)
    }
}

impl Etcd {
    /// The addresses for clients.
    #[must_use]
    pub fn endpoints(&self) -> Vec<String> {
        self.members.iter().map(Member::url).collect()
    }

    /// Starts these members if they are dead, with their data, and waits until they answer.
    ///
    /// # Errors
    /// If etcd is not installed, or a member does not answer.
    pub async fn revive(&mut self, fleet: &Fleet, which: &[usize]) -> Result<()> {
        for at in which {
            self.begin(fleet, *at).await?;
        }
        let (client, give_up) = (Client::new(), Instant::now() + READY_LIMIT);
        for at in which {
            while !self.members[*at].answers(&client).await {
                if Instant::now() > give_up {
                    return Err(self.members[*at].too_slow());
                }
                tokio::time::sleep(PAUSE).await;
            }
        }
        Ok(())
    }

    async fn begin(&mut self, fleet: &Fleet, at: usize) -> Result<()> {
        let all = |m: &Member| format!("{}=http://127.0.0.1:{}", m.name, m.peer);
        let all: Vec<String> = self.members.iter().map(all).collect();
        let member = &mut self.members[at];
        if member.process.is_some() {
            return Ok(());
        }
        let (client, peer) = (member.url(), format!("http://127.0.0.1:{}", member.peer));
        let data = fleet.dir().join(&member.name).display().to_string();
        let program = Program::new(&member.name, "etcd").args(
            [
                ["--name", &member.name],
                ["--data-dir", &data],
                ["--listen-client-urls", &client],
                ["--advertise-client-urls", &client],
                ["--listen-peer-urls", &peer],
                ["--initial-advertise-peer-urls", &peer],
                ["--initial-cluster", &all.join(",")],
            ]
            .concat(),
        );
        let missing = |error| match error {
            Error::Start { source, .. } if source.kind() == ErrorKind::NotFound => Error::Missing {
                what: "etcd, which keeps the registry of several control planes,".into(),
                remedy: "install it (Debian: apt-get install etcd-server)".into(),
            },
            other => other,
        };
        member.process = Some(fleet.start(program).await.map_err(missing)?);
        Ok(())
    }
}

impl Member {
    /// Its address for clients.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.client)
    }

    async fn answers(&self, client: &Client) -> bool {
        list(client, &self.url(), "x", None, ASKED).await.is_ok()
    }

    fn too_slow(&self) -> Error {
        Error::TooSlow {
            name: self.name.clone(),
            what: "answer".into(),
            limit: READY_LIMIT,
            log: self.process.as_ref().map(Process::log_tail).unwrap_or_default(),
        }
    }
}

/// Everything under a prefix, as the member at `url` and a majority know it, now or at an earlier
/// revision.
///
/// # Errors
/// If it does not answer within `limit`.
pub async fn list(
    client: &Client,
    url: &str,
    prefix: &str,
    revision: Option<u64>,
    limit: Duration,
) -> Result<Found> {
    let mut end = prefix.as_bytes().to_vec();
    if let Some(last) = end.last_mut() {
        *last += 1;
    }
    let at = revision.unwrap_or(0).to_string();
    let body = json!({"key": encode(prefix.as_bytes()), "range_end": encode(&end), "revision": at});
    let url = format!("{url}/v3/kv/range");
    let asked = client.post(&url, body.to_string());
    let wrong = |what: String| Error::Answer { url: url.clone(), what };
    let answer = tokio::time::timeout(limit, asked).await;
    let answer = answer.map_err(|_| wrong(format!("nothing within {limit:?}")))??;
    let said = answer.value();
    if answer.status != 200 {
        let why = said["error"].as_str().unwrap_or_default();
        if why.contains("compacted") {
            return Ok(Found::Compacted);
        }
        return Err(wrong(format!("status {}: {why}", answer.status)));
    }
    let newest = said["header"]["revision"].as_str().and_then(|text| text.parse().ok());
    let entries = said["kvs"].as_array().into_iter().flatten().map(entry);
    let found = newest.zip(entries.collect()).map(|(newest, entries)| Found::At(newest, entries));
    found.ok_or_else(|| wrong("another form".into()))
}

fn entry(kv: &Value) -> Option<Entry> {
    let bytes = |field: &str| match &kv[field] {
        Value::Null => Some(Vec::new()),
        text => decode(text.as_str()?),
    };
    Some(Entry { key: String::from_utf8(bytes("key")?).ok()?, value: bytes("value")? })
}
