//! Tests of the queue table.

use alloc::vec;
use meridian_base::{ModelId, RequestId};

use super::*;

fn request(id: u64) -> Request {
    Request { prompt_tokens: 10, ..Request::plain(RequestId(id), ModelId(0)) }
}

fn at(ms: u64) -> Time {
    Time::from_millis(ms)
}

// A queued request is examined soon, then at the pace of what may change, and expires.
#[test]
fn looks_again_until_empty() {
    let mut queue =
        WaitingQueue::new(HeldConfig { promise: Duration::from_secs(2), ..HeldConfig::default() });
    assert_eq!(queue.next_event(), None);
    queue.push(at(0), &request(1), Waited::since(at(0))).unwrap();
    queue.check_invariants(1);
    assert_eq!(queue.next_event(), Some(at(50)));
    assert!(!queue.retick(at(49)) && queue.retick(at(50)));
    // Nothing is open: only a promise comes by time alone.
    queue.look_again(at(50), false, false);
    assert_eq!(queue.next_event(), Some(at(1050)));
    assert!(queue.retick(at(1050)));
    queue.look_again(at(1050), false, true);
    assert_eq!(queue.next_event(), Some(at(2000)), "a promise is due after 2 s");
    queue.look_again(at(1050), true, true);
    assert_eq!(queue.next_event(), Some(at(1100)));
    assert_eq!(queue.expired(at(9_999)), None);
    assert_eq!(queue.expired(at(10_000)), Some(RequestId(1)));
    queue.remove(&request(1));
    queue.look_no_more();
    assert_eq!(queue.next_event(), None);
    queue.check_invariants(0);
}

// After a search in vain the next one waits for capacity that grows, for a peer, or for time.
#[test]
fn a_search_in_vain_waits_for_a_reason() {
    let mut queue = WaitingQueue::new(HeldConfig::default());
    queue.push(at(0), &request(1), Waited::since(at(0))).unwrap();
    let rows = vec![Row::default(); 2];
    assert!(queue.is_search_due(at(0)) && queue.took(1).is_none());
    queue.note_rooms(&[1.0, 5.0], &rows, 0b01);
    queue.searched(at(0), true);
    assert!(queue.searched_in_vain() && !queue.is_search_due(at(249)));
    assert_eq!((queue.took(0b01), queue.took(0b10)), (Some(true), Some(false)));
    assert!(!queue.note_rooms(&[1.0, 4.0], &rows, 0b01), "less capacity is no reason");
    assert!(queue.note_rooms(&[1.0, 4.5], &rows, 0b01));
    assert!(queue.note_rooms(&[1.0, 4.5], &rows, 0b11), "a further peer");
    assert!(!queue.note_rooms(&[1.0, 4.5], &rows, 0b11));
    assert!(queue.is_search_due(at(250)));
    // A request that may wait only for a short time is looked at by then.
    let urgent = Request { deadline: Some(at(140)), ..request(2) };
    queue.searched(at(100), true);
    queue.push(at(100), &urgent, Waited::since(at(100))).unwrap();
    assert!(!queue.is_search_due(at(119)) && queue.is_search_due(at(120)));
    queue.searched(at(120), false);
    assert!(!queue.searched_in_vain());
}

// A request that leaves twice is a defect.
#[test]
#[should_panic(expected = "leaves the queue once")]
fn a_request_leaves_once() {
    let mut queue = WaitingQueue::new(HeldConfig::default());
    queue.push(at(0), &request(1), Waited::since(at(0))).unwrap();
    queue.release(&request(1));
    queue.release(&request(1));
}
