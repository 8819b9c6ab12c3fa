//! Members that are full, lost, compacted.

use meridian_base::Duration;
use meridian_control::Error;
use meridian_control::limits::Limits;
use meridian_control::store::{Change, Keys, Revision, Store, Txn, Watch};
use tokio::time::timeout;

use crate::etcd::{Cluster, LIMIT};
use crate::stores::{of_section, put, retried};

// An etcd without space refuses changes and says how to get on. Leases are kept meanwhile, deletes
// are possible, and afterwards everything goes on.
#[tokio::test]
async fn a_full_etcd_says_so() {
    let cluster = Cluster::start(1, &["--quota-backend-bytes=400000"]);
    let store = of_section(&cluster.section(), Limits::default());
    let lease = store.grant(Duration::from_secs(60)).await.unwrap();
    let mut full = None;
    for n in 0..200 {
        let written = store.commit(put(&format!("k{n}"), &"x".repeat(20_000))).await;
        if let Err(error) = written {
            full = Some(error);
            break;
        }
    }
    let full = full.expect("it is full");
    assert!(matches!(full, Error::Full(_)), "{full:?}");
    for part in ["no space left", "compact and defragment", "etcdctl alarm disarm"] {
        assert!(full.to_string().contains(part), "{full}");
    }
    assert_eq!(store.keep_alive(lease.id).await.unwrap(), lease.ttl);
    let there = store.list("k").await.unwrap();
    for entry in &there.entries {
        let delete = Txn { guards: Vec::new(), changes: vec![Change::Delete(entry.key.clone())] };
        store.commit(delete).await.unwrap();
    }
    let head = store.list("").await.unwrap().revision;
    store.compact(head).await.unwrap();
    cluster.ctl_all(&["defrag"]).unwrap();
    cluster.ctl_all(&["alarm", "disarm"]).unwrap();
    store.commit(put("k", "again")).await.unwrap();
}

// Without any member a call ends with an error that says so, and goes on when one is back.
#[tokio::test]
async fn a_lost_etcd_says_so() {
    let mut cluster = Cluster::start(1, &[]);
    let store = of_section(&cluster.section(), Limits::default());
    store.commit(put("k", "1")).await.unwrap();
    let mut watch = store.watch(&Keys::prefix("k"), Revision(3));
    cluster.kill(0);
    let lost = store.get("k").await.unwrap_err();
    assert!(lost.may_retry() && lost.to_string().contains("etcd does not answer"), "{lost}");
    assert!(lost.to_string().contains("refused"), "it names the cause: {lost}");
    cluster.restart(0);
    retried(|| store.commit(put("k", "2"))).await;
    let batch = timeout(LIMIT, watch.next()).await.unwrap().unwrap();
    assert_eq!(batch.revision, Revision(3));
}

// A watch of a store that does not change stays at its member, also after a compaction.
#[tokio::test]
async fn an_idle_watch_stays() {
    let cluster = Cluster::start(3, &[]);
    let store = of_section(&cluster.section(), Limits::default());
    store.commit(put("k", "1")).await.unwrap();
    let head = store.list("").await.unwrap().revision;
    store.compact(head).await.unwrap();
    let member = store.member().to_owned();
    let mut watch = store.watch(&Keys::prefix("k"), head.next());
    let idle = timeout(Duration::from_secs(8), watch.next()).await;
    assert!(idle.is_err(), "{idle:?}");
    assert_eq!(store.member(), member);
    store.commit(put("k", "2")).await.unwrap();
    assert_eq!(timeout(LIMIT, watch.next()).await.unwrap().unwrap().revision, head.next());
}

// A watch whose member was dead during a compaction ends and says so, even one without changes of its
// own: etcd can't tell. A new one from the newest revision works.
#[tokio::test]
async fn a_compaction_under_a_watch() {
    let mut cluster = Cluster::start(3, &[]);
    let at_one = format!("etcd:\n  endpoints: [{}]\n", cluster.endpoints()[0]);
    let at_one = of_section(&at_one, Limits::default());
    let store = of_section(&cluster.section(), Limits::default());
    store.commit(put("a", "1")).await.unwrap();
    let head = store.list("").await.unwrap().revision;
    let mut behind = at_one.watch(&Keys::prefix("a"), head);
    let mut idle = at_one.watch(&Keys::prefix("b"), head.next());
    assert_eq!(timeout(LIMIT, behind.next()).await.unwrap().unwrap().revision, head);
    cluster.kill(0);
    for n in 2..20 {
        retried(|| store.commit(put("a", &n.to_string()))).await;
    }
    let newest = store.list("").await.unwrap().revision;
    store.compact(newest).await.unwrap();
    cluster.restart(0);
    let ended = timeout(LIMIT, behind.next()).await.unwrap().unwrap_err();
    assert!(
        matches!(ended, Error::Compacted { asked, oldest } if asked == head.next() && oldest == newest),
        "{ended:?}"
    );
    let ended = timeout(LIMIT, idle.next()).await.unwrap().unwrap_err();
    assert!(matches!(ended, Error::Compacted { .. }), "{ended:?}");
    let mut fresh = at_one.watch(&Keys::prefix("a"), newest);
    assert_eq!(timeout(LIMIT, fresh.next()).await.unwrap().unwrap().revision, newest);
}
