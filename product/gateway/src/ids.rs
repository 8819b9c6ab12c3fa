//! Request ids: a counter, shown with a prefix of this process so that the logs of two gateways
//! stay distinct. Ids chosen by clients are remembered as hashes, so an operator can look them up.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

use meridian_base::{RequestId, keyed, mix};

use crate::lock::Mutex;

/// Most client ids that are remembered.
const MOST: usize = 4096;

pub(crate) struct Ids {
    prefix: u32,
    next: AtomicU64,
    /// Key for the hashes of client ids.
    seed: u64,
    /// Hashes of client ids, the newest last.
    chosen: Mutex<VecDeque<(u64, RequestId)>>,
}

impl Ids {
    pub(crate) fn new(prefix: u64, seed: u64) -> Ids {
        Ids { prefix: prefix as u32, next: AtomicU64::new(1), seed, chosen: Mutex::default() }
    }

    /// A random number of this process.
    pub(crate) fn seed(&self) -> u64 {
        mix(self.seed, u64::from(self.prefix))
    }

    pub(crate) fn next(&self) -> RequestId {
        RequestId(self.next.fetch_add(1, Ordering::Relaxed))
    }

    pub(crate) fn show(&self, id: RequestId) -> String {
        format!("req-{:08x}-{:x}", self.prefix, id.0)
    }

    fn parse(&self, text: &str) -> Option<RequestId> {
        let (prefix, id) = text.strip_prefix("req-")?.split_once('-')?;
        let ours = u32::from_str_radix(prefix, 16).ok()? == self.prefix;
        let id = u64::from_str_radix(id, 16).ok()?;
        ours.then_some(RequestId(id))
    }

    /// Notes that the client knows request `id` as `shown`. An id chosen by the client is
    /// remembered.
    pub(crate) fn note(&self, shown: &[u8], id: RequestId) {
        if std::str::from_utf8(shown).ok().and_then(|text| self.parse(text)).is_some() {
            return;
        }
        let hash = keyed(self.seed, shown);
        let mut chosen = self.chosen.lock();
        if chosen.len() == MOST {
            chosen.pop_front();
        }
        chosen.push_back((hash, id));
        assert!(chosen.len() <= MOST, "the ids of clients are forgotten in time");
    }

    /// The newest request that a client knows as `shown`.
    pub(crate) fn find(&self, shown: &str) -> Option<RequestId> {
        self.parse(shown).or_else(|| {
            let hash = keyed(self.seed, shown.as_bytes());
            let chosen = self.chosen.lock();
            chosen.iter().rev().find(|(known, _)| *known == hash).map(|(_, id)| *id)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // A shown id parses back; another process's id is not accepted.
    #[test]
    fn ids_round_trip() {
        let ids = Ids::new(0xABCD, 0);
        let id = ids.next();
        assert_eq!(ids.parse(&ids.show(id)), Some(id));
        assert_eq!(Ids::new(1, 0).parse(&ids.show(id)), None);
        assert_eq!(ids.parse("req-zz"), None);
    }

    // A client's own id finds its newest request, and the table stays within its limit.
    #[test]
    fn own_ids_are_found() {
        let ids = Ids::new(1, 7);
        ids.note(b"mine", RequestId(1));
        ids.note(b"mine", RequestId(2));
        assert_eq!(ids.find("mine"), Some(RequestId(2)));
        (0..MOST as u64).for_each(|n| ids.note(n.to_string().as_bytes(), RequestId(n)));
        assert_eq!((ids.find("mine"), ids.chosen.lock().len()), (None, MOST));
    }
}
