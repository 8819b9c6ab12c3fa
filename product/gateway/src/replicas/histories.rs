//! The up and down intervals of all replicas, by host and port: a replica that is removed and added
//! again, for example after an upgrade, continues its history under a new name.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use http::uri::Authority;
use meridian_protocol::intervals::History;

use crate::lock::Mutex;

/// Departed replicas whose histories are kept.
const MOST_DEPARTED: usize = 1024;

#[derive(Debug, Default)]
pub(crate) struct Histories(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    all: BTreeMap<String, Arc<Mutex<History>>>,
    /// Those that left, the oldest first.
    departed: VecDeque<String>,
}

impl Histories {
    /// The history of a replica that joins.
    pub(crate) fn joins(&self, at: &Authority, url: &str) -> Arc<Mutex<History>> {
        let key = key(at);
        let mut inner = self.0.lock();
        inner.departed.retain(|left| *left != key);
        let history = inner.all.entry(key).or_default().clone();
        url.clone_into(&mut history.lock().name);
        history
    }

    /// The replica has left.
    pub(crate) fn leaves(&self, at: &Authority) {
        let mut inner = self.0.lock();
        inner.departed.push_back(key(at));
        if inner.departed.len() > MOST_DEPARTED
            && let Some(oldest) = inner.departed.pop_front()
        {
            inner.all.remove(&oldest);
        }
        assert!(inner.departed.len() <= MOST_DEPARTED, "departed replicas are forgotten in time");
    }

    /// All histories, at this date.
    pub(crate) fn read(&self, now_ms: u64) -> Vec<History> {
        self.0.lock().all.values().map(|history| history.lock().at(now_ms)).collect()
    }
}

fn key(at: &Authority) -> String {
    at.as_str().to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    // A replica that returns continues its history. Of those that left, the newest are kept.
    #[test]
    fn returns() {
        let histories = Histories::default();
        let at = |n: usize| format!("Host:{}", n + 1).parse::<Authority>().unwrap();
        histories.joins(&at(0), "http://host:1").lock().enter(1, "up", "answered");
        histories.leaves(&at(0));
        let again = histories.joins(&at(0), "http://host:1/");
        let History { name, intervals, .. } = again.lock().clone();
        assert_eq!((intervals.len(), &*name), (1, "http://host:1/"));
        for n in 1..3000 {
            histories.joins(&at(n), "http://other");
            histories.leaves(&at(n));
        }
        assert_eq!(histories.read(5).len(), 1 + MOST_DEPARTED);
        assert_eq!(histories.read(5).iter().filter(|one| one.state() == Some("up")).count(), 1);
    }
}
