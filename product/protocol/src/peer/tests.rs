use meridian_base::ReplicaId;
use meridian_base::residency::Place;
use meridian_base::{Digest, Pace, PeerReplica, Pool, Role};
use proptest::prelude::*;
use prost::Message;
use std::sync::Arc;

use super::*;

mod replicas;
mod siblings;

fn us() -> Identity {
    Identity::new("prod", "us", "us-1").expect("are labels")
}

fn eu() -> Identity {
    Identity::new("prod", "eu", "eu-1").expect("are labels")
}

fn encoded(tell: &Tell) -> Vec<u8> {
    let mut bytes = Vec::new();
    tell.encode(&mut bytes);
    bytes
}

fn over_the_wire(news: News) -> News {
    match Tell::decode(encoded(&Tell::News(news)).as_slice()).expect("is within bounds") {
        Tell::News(news) => news,
        other => panic!("{other:?}"),
    }
}

fn amount() -> impl Strategy<Value = f32> {
    prop_oneof![Just(0.0), 0.0..1e9_f32]
}

/// A pool of any role. The rack is not sent.
fn pool(n: u32) -> Pool {
    Pool { role: Role::ALL[n as usize % 3], partner: n, rack: 0 }
}

fn remote(id: u16) -> impl Strategy<Value = PeerReplica> {
    let room = prop_oneof![Just(f32::INFINITY), -1e6..1e6_f32];
    let kv_free = prop_oneof![Just(f32::INFINITY), 0.0..1e6_f32];
    let shares = [0.0..=1.0_f32, 0.0..=1.0, 0.0..=1.0];
    let counts = (any::<bool>(), any::<[u32; 4]>());
    (room, kv_free, shares, counts, amount(), amount(), amount(), amount()).prop_map(
        move |(room, kv_free, shares, (eligible, counts), a, b, c, d)| PeerReplica {
            id: ReplicaId(id),
            // The capacity of a replica for prefill follows from its room.
            eligible: if pool(counts[0]).role.answers() { eligible } else { room > 0.0 },
            room,
            front_tokens: a,
            running: counts[0],
            outstanding: counts[1],
            outstanding_tokens: b,
            reported_pending: counts[2],
            utilisation: shares[0],
            kv_used: shares[1],
            kv_free,
            kv_tokens: c,
            ms_per_token: d,
            step_slope_ms: d,
            trust: shares[2],
            free_slots: counts[3],
            pool: pool(counts[0]),
        },
    )
}

/// A digest of some of eight replicas, ordered by id.
fn digest() -> impl Strategy<Value = Digest> {
    let replicas: Vec<_> = (0..8).map(|id| proptest::option::of(remote(id * 9000))).collect();
    let figures = (0.0..=1.0_f32, amount(), any::<u64>());
    let places = proptest::collection::btree_set(0..3_u8, 0..3);
    let region = |at: u8| Arc::new(Place::region(&format!("r{at}")));
    let places = places.prop_map(move |set| set.into_iter().map(region).collect::<Vec<_>>());
    (any::<[u32; 3]>(), figures, any::<bool>(), replicas, places).prop_map(
        |(counts, (utilisation, learned, kv_tokens), whole, replicas, places)| Digest {
            held: counts[0],
            eligible: counts[1],
            usable: counts[2],
            utilisation,
            kv_tokens,
            learned_ms_per_token: learned,
            replicas: replicas.into_iter().flatten().collect(),
            pace: (counts[0] % 2 == 0).then_some(Pace { fixed_ms: learned, ms_per_token: 0.5 }),
            whole,
            places,
        },
    )
}

proptest! {
    // Whatever the state of a region, its peer's digests are the same after each message of a
    // stream.
    #[test]
    fn digests_arrive_as_they_were_sent(digests in proptest::collection::vec(digest(), 1..6)) {
        let mut telling = Telling::default();
        let mut hearing = Hearing::default();
        let mut page = Page::default();
        for (at, digest) in digests.iter().enumerate() {
            // Occasionally a page is skipped.
            page = page.next(digest.clone());
            if at % 3 == 1 {
                continue;
            }
            let news = telling.news(&page);
            let heard = hearing.take(over_the_wire(news)).expect("follows");
            prop_assert_eq!(&*heard, digest);
        }
    }

    // Every message reads back as written.
    #[test]
    fn messages_read_back(stamp in any::<u64>(), count in any::<u32>(), d in digest()) {
        let hello = Hello::new(us(), stamp, 64, "meridian");
        let news = Telling::default().news(&d.into());
        let models = Tell::Models(vec!["org/model".to_owned(), "adapter".to_owned()]);
        let hello_back = Tell::Hello(hello.clone());
        for tell in [hello_back, Tell::Echo(stamp), Tell::News(news), models, Tell::Unknown] {
            prop_assert_eq!(Tell::decode(encoded(&tell).as_slice()), Ok(tell));
        }
        for ask in [Ask::Hello(hello), Ask::Heartbeat(stamp), Ask::Steal(count), Ask::Unknown] {
            let mut bytes = Vec::new();
            ask.encode(&mut bytes);
            prop_assert_eq!(Ask::decode(bytes.as_slice()), Ok(ask));
        }
    }

    // No bytes make a reader panic, and its results are within the limits.
    #[test]
    fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = Ask::decode(bytes.as_slice());
        if let Ok(Tell::News(news)) = Tell::decode(bytes.as_slice()) {
            let news = over_the_wire(news);
            prop_assert!(news.changes.changed().len() <= MOST_REPLICAS);
        }
    }
}

fn changes(
    changed: impl IntoIterator<Item = u16>,
    gone: impl IntoIterator<Item = u16>,
) -> Arc<Changes> {
    let gone = gone.into_iter().map(ReplicaId).collect();
    Arc::new(Changes::new(changed.into_iter().map(replica).collect(), gone))
}

fn replica(id: u16) -> PeerReplica {
    PeerReplica {
        id: ReplicaId(id),
        eligible: true,
        room: 5.0,
        front_tokens: 1.0,
        running: 2,
        outstanding: 3,
        outstanding_tokens: 4.0,
        reported_pending: 5,
        utilisation: 0.5,
        kv_used: 0.25,
        kv_free: f32::INFINITY,
        kv_tokens: 100.0,
        ms_per_token: 0.1,
        step_slope_ms: 0.2,
        trust: 1.0,
        free_slots: 6,
        pool: pool(2),
    }
}

// To an older gateway, which knows no roles, a replica for prefill is full.
#[test]
fn a_replica_for_prefill_looks_full_to_older_gateways() {
    let prefill = PeerReplica { pool: pool(1), ..replica(3) };
    let written = proto::Replica::from(&prefill);
    assert!(!written.eligible && written.role() == proto::Role::Prefill);
    assert_eq!(PeerReplica::try_from(&written), Ok(prefill));
    let older = proto::Replica { role: 0, partner: 0, ..proto::Replica::from(&replica(3)) };
    assert_eq!(PeerReplica::try_from(&older).map(|r| r.pool), Ok(Pool::default()));
}

// A value outside a field's range (NaN, infinite, negative or too large) is refused with the
// field's name.
#[test]
fn impossible_numbers_are_refused() {
    type Break = fn(&mut proto::Replica, f32);
    let fields: [(&str, Break, &[f32]); 9] = [
        ("room", |r, v| r.room = v, &[f32::NAN]),
        ("front_tokens", |r, v| r.front_tokens = v, &[f32::NAN, f32::INFINITY, -1.0]),
        ("outstanding_tokens", |r, v| r.outstanding_tokens = v, &[f32::NAN, f32::INFINITY, -1.0]),
        ("utilisation", |r, v| r.utilisation = v, &[f32::NAN, 1.1, -0.1]),
        ("kv_used", |r, v| r.kv_used = v, &[f32::NAN, 1.1, -0.1]),
        ("kv_free", |r, v| r.kv_free = v, &[f32::NAN, -1.0]),
        ("kv_tokens", |r, v| r.kv_tokens = v, &[f32::NAN, f32::INFINITY, -1.0]),
        ("ms_per_token", |r, v| r.ms_per_token = v, &[f32::NAN, f32::INFINITY, -1.0]),
        ("trust", |r, v| r.trust = v, &[f32::NAN, 1.1, -0.1]),
    ];
    for (name, set, values) in fields {
        for value in values {
            let mut broken = proto::Replica::from(&replica(1));
            set(&mut broken, *value);
            let news = proto::News { changed: vec![broken], ..proto::News::default() };
            let error = News::try_from(news).expect_err("is impossible").to_string();
            assert!(error.starts_with(&format!("{name}: ")), "{name} = {value}: {error}");
        }
    }
    let news = proto::News { utilisation: f32::NAN, ..proto::News::default() };
    assert!(News::try_from(news).is_err_and(|e| e.to_string().starts_with("utilisation: NaN")));
}

// Ids beyond the tables' range, repeated replicas and lists that do not fit together are refused.
#[test]
fn impossible_lists_are_refused() {
    let refused = |news: proto::News| News::try_from(news).expect_err("is impossible").to_string();
    let one = proto::Replica::from(&replica(1));
    let far = proto::Replica { id: 65_536, ..one };
    let of = |changed| proto::News { changed, ..proto::News::default() };
    assert!(refused(of(vec![far])).starts_with("id: 65536 is not an id below 65536"));
    assert!(refused(of(vec![one, one])).starts_with("changed: replica 1 was sent twice"));
    let many = (0..=MOST_REPLICAS as u32).map(|id| proto::Replica { id, ..one }).collect();
    assert!(refused(of(many)).starts_with("changed: 1025 were sent; send at most 1024"));
    let gone = proto::News { gone: vec![0; MOST_REPLICAS + 1], ..proto::News::default() };
    assert!(refused(gone).starts_with("gone: 1025"));
}

// A message over the limit is refused unread; the largest allowed one fits.
#[test]
fn long_messages_are_refused() {
    let long = vec![0; MOST_MESSAGE + 1];
    assert_eq!(Tell::decode(long.as_slice()), Err(PeerError::Long(MOST_MESSAGE + 1)));
    let largest = News {
        changes: changes((0..MOST_REPLICAS as u16).map(|n| u16::MAX - n), []),
        ..News::default()
    };
    assert!(encoded(&Tell::News(largest)).len() <= MOST_MESSAGE);
    let models = Tell::Models(vec!["m".repeat(256); MOST_MODELS]);
    let bytes = encoded(&models);
    assert!(bytes.len() <= MOST_MESSAGE);
    assert_eq!(Tell::decode(bytes.as_slice()), Ok(models));
}

// A gateway sends no more models than allowed. A peer that sends more, or a name that is too long,
// is faulty.
#[test]
fn models_are_bounded() {
    let models = |names: Vec<String>| {
        let kind = Some(proto::tell::Kind::Models(proto::Models { names }));
        Tell::decode(proto::Tell { kind }.encode_to_vec().as_slice()).map_err(|e| e.to_string())
    };
    let many = vec!["m".to_owned(); MOST_MODELS + 1];
    let said = Tell::decode(encoded(&Tell::Models(many.clone())).as_slice());
    assert_eq!(said, Ok(Tell::Models(many[1..].to_vec())));
    assert_eq!(models(many), Err("models: 257 were sent; send at most 256".to_owned()));
    assert_eq!(models(vec!["m".repeat(257)]), Err("models: 257 bytes, over 256".to_owned()));
}

// News that does not follow the last one is refused: it would yield a wrong digest.
#[test]
fn news_follow_each_other() {
    let digest =
        Digest { replicas: vec![replica(1), replica(2)], whole: true, ..Digest::default() };
    let mut telling = Telling::default();
    let first = telling.news(&digest.clone().into());
    let second = telling.news(&digest.clone().into());
    assert_eq!(
        (first.changes.changed().len(), second.changes.changed().len()),
        (2, 0),
        "only changes are sent"
    );
    let mut hearing = Hearing::default();
    assert_eq!(hearing.take(second.clone()), Err(PeerError::Gap { base: 1, have: 0 }));
    assert!(hearing.take(first.clone()).is_ok());
    assert_eq!(hearing.take(first), Err(PeerError::Gap { base: 0, have: 1 }));
    let same = News { version: 1, ..second.clone() };
    assert_eq!(hearing.take(same), Err(PeerError::Order { version: 1, have: 1 }));
    assert_eq!(hearing.take(second).map(|d| d.replicas.len()), Ok(2));
}

// A peer of an older minor version works with its own features. The error for another major version
// says which side to update.
#[test]
fn versions_are_served_or_refused() {
    let ours = Hello { minor: 3, ..Hello::new(us(), 7, 64, "meridian") };
    let theirs = Hello { minor: 1, ..Hello::new(eu(), 7, 64, "chwbl") };
    assert_eq!(
        ours.meet(&theirs, &eu()),
        Ok(Agreement { minor: 1, same_secret: true, prefixes: true })
    );
    let newer = Hello { major: MAJOR + 1, ..theirs.clone() };
    let error = ours.meet(&newer, &eu()).expect_err("is another major").to_string();
    assert!(error.ends_with("update us/us-1"), "{error}");
    let error = newer.meet(&ours, &us()).expect_err("is another major").to_string();
    assert!(error.ends_with("update us/us-1"), "{error}");
}

// Different seeds or block sizes only make hashes incomparable. Other secrets are recognized, where
// both sides would use the hashes.
#[test]
fn incomparable_hashes_are_not_shared() {
    let ours = Hello::new(us(), 7, 64, "meridian");
    for (theirs, has_other_secret) in [
        (Hello::new(eu(), 8, 64, "meridian"), true),
        (Hello::new(eu(), 7, 128, "meridian"), false),
        (Hello::new(eu(), 8, 0, "random"), false),
    ] {
        assert_eq!(ours.has_other_secret(&theirs), has_other_secret, "{theirs:?}");
        assert_eq!(ours.meet(&theirs, &eu()).map(|a| a.prefixes), Ok(false));
    }
}

// A gateway with another gateway's name, one of another fleet, and this one itself are refused.
#[test]
fn impostors_are_refused() {
    let ours = Hello::new(us(), 7, 64, "meridian");
    let theirs = Hello::new(eu(), 7, 64, "meridian");
    assert!(matches!(ours.meet(&theirs, &us()), Err(Refused::Name { .. })));
    assert!(matches!(ours.meet(&ours, &us()), Err(Refused::Itself(_))));
    let far = Identity::new("test", "eu", "eu-1").expect("are labels");
    let other = Hello::new(far.clone(), 7, 64, "meridian");
    assert!(matches!(ours.meet(&other, &far), Err(Refused::Fleet { .. })));
}

// Additions of a newer peer are ignored: fields of known messages, and whole messages.
#[test]
fn additions_are_passed_over() {
    let mut bytes = encoded(&Tell::Echo(5));
    bytes.extend([0xFA, 0x01, 0x03, 1, 2, 3]); // field 31, three bytes
    assert_eq!(Tell::decode(bytes.as_slice()), Ok(Tell::Echo(5)));
    assert_eq!(Tell::decode(&[0xFA, 0x01, 0x03, 1, 2, 3][..]), Ok(Tell::Unknown));
    // A message from an older peer lacks newer fields, which read as empty.
    let bare = proto::Tell { kind: Some(proto::tell::Kind::News(proto::News::default())) };
    let read = Tell::decode(bare.encode_to_vec().as_slice());
    assert_eq!(read, Ok(Tell::News(News::default())));
}

// The first message has limits like all others.
#[test]
fn names_are_bounded() {
    let hello = proto::Hello::from(&Hello::new(us(), 7, 64, "meridian"));
    let long = proto::Hello { policy: "p".repeat(65), ..hello.clone() };
    assert!(Hello::try_from(long).is_err_and(|e| e.to_string().starts_with("policy: 65 bytes")));
    let odd = proto::Hello { region: "eu/1".to_owned(), ..hello };
    assert!(Hello::try_from(odd).is_err_and(|e| e.to_string().starts_with("region: `eu/1`")));
}

// The check distinguishes seeds without revealing them.
#[test]
fn a_seed_check_is_not_the_seed() {
    assert_ne!(seed_check(1), seed_check(2));
    assert_ne!(seed_check(1), 1);
    assert_eq!(seed_check(1), seed_check(1));
}

// An idle region costs few bytes: its replicas are sent once.
#[test]
fn an_unchanged_region_costs_a_few_bytes() {
    let digest = Digest { replicas: (0..1000).map(replica).collect(), ..Digest::default() };
    let mut telling = Telling::default();
    let full = encoded(&Tell::News(telling.news(&digest.clone().into()))).len();
    let same = encoded(&Tell::News(telling.news(&digest.clone().into()))).len();
    assert!(full > 40_000 && same < 20, "{full} bytes, then {same}");
}
