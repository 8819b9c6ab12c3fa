//! A peer's replicas as news arrives.

use std::ops::Range;

use super::*;

// In one message, replicas may come in any order, change, and leave. Unknown ones may leave, and a
// replica may be both gone and changed. The result is ordered by id.
#[test]
fn replicas_come_change_and_leave() {
    let mut hearing = Hearing::default();
    let mut heard = |version: u64, changed: &[(u16, u32)], gone: &[u16]| {
        let message = |(id, running): &(u16, u32)| proto::Replica {
            running: *running,
            ..proto::Replica::from(&replica(*id))
        };
        let news = proto::News {
            version,
            base: version - 1,
            changed: changed.iter().map(message).collect(),
            gone: gone.iter().map(|id| u32::from(*id)).collect(),
            ..proto::News::default()
        };
        let digest = hearing.take(News::try_from(news).expect("is possible")).expect("follows");
        digest.replicas.iter().map(|r| (r.id.0, r.running)).collect::<Vec<_>>()
    };
    assert_eq!(heard(1, &[(5, 1), (1, 1), (9, 1), (3, 1)], &[]), [(1, 1), (3, 1), (5, 1), (9, 1)]);
    assert_eq!(heard(2, &[], &[]), [(1, 1), (3, 1), (5, 1), (9, 1)], "nothing new");
    assert_eq!(heard(3, &[(9, 2), (3, 2)], &[]), [(1, 1), (3, 2), (5, 1), (9, 2)], "changes");
    assert_eq!(heard(4, &[], &[7, 9, 1]), [(3, 2), (5, 1)], "leave, known or not");
    let both = heard(5, &[(4, 1), (12, 1), (0, 1), (5, 3)], &[3, 11]);
    assert_eq!(both, [(0, 1), (4, 1), (5, 3), (12, 1)], "come, change and leave");
    assert_eq!(heard(6, &[(4, 4)], &[0, 4]), [(4, 4), (5, 3), (12, 1)], "gone and changed");
    assert_eq!(heard(7, &[], &[4, 5, 12]), [], "all leave");
}

// A digest that a caller keeps never changes.
#[test]
fn digests_that_are_kept_stay_as_they_were() {
    let mut hearing = Hearing::default();
    let news = |version: u64, held, ids: Range<u16>| News {
        version,
        base: version - 1,
        held,
        changes: changes(ids, []),
        ..News::default()
    };
    let first = hearing.take(news(1, 7, 0..2)).expect("follows");
    let second = hearing.take(news(2, 8, 2..3)).expect("follows");
    assert_eq!((first.held, first.replicas.len()), (7, 2));
    assert_eq!((second.held, second.replicas.len()), (8, 3));
}

// Two followers with the same state get the same bytes. A follower with another state gets its own
// difference.
#[test]
fn followers_get_what_they_lack() {
    let region = |ids: &[u16]| Digest {
        replicas: ids.iter().copied().map(replica).collect(),
        ..Digest::default()
    };
    let telling = || Telling::default();
    let (mut one, mut two, mut late) = (telling(), telling(), telling());
    let first = Page::from(region(&[1, 2, 3]));
    let second = first.next(region(&[2, 3, 4]));
    let third = second.next(region(&[3, 4, 5]));
    for page in [&first, &second, &third] {
        let (a, b) = (one.news(page), two.news(page));
        assert_eq!(encoded(&Tell::News(a)), encoded(&Tell::News(b)));
    }
    let mut hearing = Hearing::default();
    for page in [&first, &third] {
        let news = over_the_wire(late.news(page));
        assert_eq!(hearing.take(news).as_ref(), Ok(page.digest()));
    }
}

// Many small messages with new replicas can't exceed the limit of one message.
#[test]
fn replicas_do_not_pile_up() {
    let mut hearing = Hearing::default();
    let news = |version: u64, ids: Range<u16>| News {
        version,
        base: version - 1,
        changes: changes(ids, []),
        ..News::default()
    };
    assert!(hearing.take(news(1, 0..1024)).is_ok());
    assert!(hearing.take(news(2, 0..1024)).is_ok());
    let error = hearing.take(news(3, 1024..1025)).expect_err("is one more").to_string();
    assert!(error.starts_with("changed: 1025"), "{error}");
}
