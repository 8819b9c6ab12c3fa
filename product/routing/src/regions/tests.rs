//! Tests of the regions table.

use alloc::vec;
use meridian_base::ModelId;

use super::*;
use crate::index::{Evict, Insert};

const PEER: PeerId = PeerId(0);

fn request(id: u64) -> Request {
    Request::plain(RequestId(id), ModelId(0))
}

fn regions() -> Regions {
    let mut regions = Regions::new(Topology::TwoLayer, Peering::default());
    regions.join(PEER, PeerSpec { rtt: Duration::from_millis(20), near: true, name_hash: 0 });
    let spec = IndexSpec {
        block_bytes: 64,
        per_target_blocks: None,
        total_blocks: 1024,
        evict: Evict::LeastRecent,
        insert: Insert::Both,
        ttl: None,
    };
    regions.start_snapshot(Some(spec), false);
    regions
}

fn matched(regions: &Regions, blocks: &[u64]) -> u32 {
    let snapshot = regions.snapshot().unwrap();
    let mut out = vec![0; snapshot.width()];
    snapshot.matches(blocks, &mut out);
    out[PEER.index()]
}

fn send(regions: &mut Regions, id: u64, blocks: &[u64]) {
    let sent = Sent { meant: None, unmatched: 10.0, growth: 0.0 };
    regions.sent(Time::ZERO, PEER, RequestId(id), sent, blocks);
}

// Requests may leave with a peer and a topology that uses it.
#[test]
fn open_with_a_peer() {
    let mut regions = regions();
    assert!(regions.are_open());
    regions.configured(Topology::Local, Peering::default());
    assert!(!regions.are_open());
    regions.configured(Topology::TwoLayer, Peering::default());
    regions.leave(PEER);
    assert!(!regions.are_open());
}

// A forward counts until it ends. What its end says about the peer's cache depends on whether its
// prompt was computed.
#[test]
fn a_forward_is_remembered() {
    let mut regions = regions();
    let away = Away::default();
    for (id, end, kept) in [
        (1, Remembered::Unknown, 0),
        (2, Remembered::Computed, 2),
        (3, Remembered::Done { served: None, held: &[1, 2, 3] }, 3),
    ] {
        send(&mut regions, id, &[1, 2]);
        regions.check_invariants(&[1]);
        regions.ended(PEER, RequestId(id), Outcome::Done, false);
        regions.remember(Time::ZERO, PEER, away, &[1, 2], end);
        assert_eq!(matched(&regions, &[1, 2, 3]), kept);
        regions.check_invariants(&[0]);
    }
    regions.leave(PEER);
    assert_eq!(matched(&regions, &[1, 2, 3]), 0, "a peer that is gone has nothing cached");
}

// A refusal shuts a peer until its next digest, unless only the request's own rules are to blame. A
// digest that is not newer than the last is ignored.
#[test]
fn a_refusal_shuts_a_peer() {
    let mut regions = regions();
    let digest = Digest::default();
    assert!(regions.digested(Time::ZERO, PEER, 1, None, &digest));
    for (id, elsewhere) in [(1, true), (2, false)] {
        send(&mut regions, id, &[]);
        regions.ended(PEER, RequestId(id), Outcome::NoRoom, elsewhere);
        assert_eq!(regions.get(PEER).unwrap().shut, !elsewhere);
    }
    assert!(!regions.digested(Time::ZERO, PEER, 1, None, &digest));
    assert!(regions.get(PEER).unwrap().shut);
    assert!(regions.digested(Time::ZERO, PEER, 2, None, &digest));
    assert!(!regions.get(PEER).unwrap().shut);
    assert_eq!(regions.peers().totals(PEER).unwrap().full, 2);
}

// A peer that leaves may have been the only permitted place, so masks are made again.
#[test]
fn masks_follow_the_peers() {
    let mut regions = regions();
    let mut free = Permitted::at_first(&request(1));
    regions.refresh(&mut free, &request(1));
    assert_eq!((free.places, free.peers), (u64::MAX, u64::MAX));
    let place = Arc::new(Place::region("eu"));
    assert_eq!(regions.enter_place(&place), 0);
    assert_eq!(regions.places_named(1), [place]);
    assert!(regions.leave_place(0));
}

// A forward that ends twice is a defect.
#[test]
#[should_panic(expected = "end once")]
fn a_forward_ends_once() {
    let mut regions = regions();
    regions.ended(PEER, RequestId(1), Outcome::Done, false);
}
