//! What only the embedded store has: limits of its own, and history that removes itself.

use meridian_control::Error;
use meridian_control::limits::Limits;
use meridian_control::store::{Change, Keys, Revision, Store, Txn, Watch};

use crate::stores;

fn put(key: &str, value: &str) -> Txn {
    Txn { guards: Vec::new(), changes: vec![Change::put(key, value)] }
}

// Without any compaction, history older than the limit is gone, and the error of a watch names the
// oldest that is left.
#[tokio::test]
async fn history_removes_itself() {
    let store = stores::store(Limits { history: 5, ..Limits::default() }).await;
    let mut watch = store.watch(&Keys::prefix(""), Revision(1));
    for n in 0..9 {
        store.commit(put("k", &n.to_string())).await.unwrap();
    }
    let behind = Error::Compacted { asked: Revision(1), oldest: Revision(5) };
    assert_eq!(watch.next().await, Err(behind));
}

// The number of keys is limited.
#[tokio::test]
async fn keys_are_limited() {
    let store = stores::store(Limits { keys: 1, ..Limits::default() }).await;
    store.commit(put("k", "")).await.unwrap();
    let full = store.commit(put("l", "")).await.unwrap_err();
    assert!(full.to_string().starts_with("the number of keys is 2, the limit is 1"), "{full}");
    assert_eq!(store.list("").await.unwrap().revision, Revision(1));
}
