use meridian_base::RequestId;

use super::*;

/// A request of 32 tokens with a reply of 16.
pub(crate) fn flight(sent: Time) -> Flight {
    let text = RequestText {
        prompt_tokens: 32,
        reply_tokens: 16,
        blocks: vec![1, 2, 3],
        own_blocks: None,
        head: 0,
    };
    let (load, region, program, node) = (0, 1, 0, 0);
    let (name, session, tenant, slo) = (5, 6, 7, None);
    Flight::new(ClientRequest {
        load,
        region,
        program,
        node,
        name,
        session,
        tenant,
        slo,
        sent,
        text,
    })
}

// Each dispatch, forward, abandonment and end is another attempt, so that older messages do
// not count.
#[test]
fn attempts_are_numbered() {
    let mut flight = flight(Time::ZERO);
    flight.enter(2);
    assert_eq!(flight.forward(Time::ZERO, 3, 0), 1);
    assert_eq!((flight.entry(), flight.sender()), (2, 3));
    assert_eq!(flight.dispatch(Time::ZERO, 9, 16), 2);
    assert!(flight.uses(9) && !flight.uses(8));
    assert_eq!(flight.abandon(), (Some(9), Some(3)));
    assert_eq!((flight.attempt(), flight.sender()), (3, 2));
    flight.end();
    assert_eq!((flight.attempt(), flight.may_move()), (4, false));
    let record = flight.record(Time::from_millis(9), None, Fate::Lost);
    assert_eq!((record.attempts, record.region, record.served), (1, 1, 1));
    assert_eq!((record.forwarded, record.matched_tokens), (true, 16));
}

// Time in queues adds up, and the time at a peer also counts apart.
#[test]
fn held_time_adds_up() {
    let (mut flight, ms) = (flight(Time::ZERO), Time::from_millis);
    flight.hold(ms(1));
    flight.hold(ms(2));
    flight.forward(ms(4), 3, 0);
    flight.hold(ms(10));
    assert!(flight.is_held());
    flight.leave_queue(ms(15));
    flight.leave_queue(ms(20));
    let record = flight.record(ms(20), Some(4), Fate::Done);
    assert_eq!(record.held, Duration::from_millis(8));
    assert_eq!((record.held_away, record.served), (Duration::from_millis(5), 4));
}

// A split attempt uses both replicas, one after the other, and then has no legs.
#[test]
fn split_attempts() {
    let mut flight = flight(Time::ZERO);
    let split = Split { name: RequestId(1), from: 4, to: 5, prefilling: true };
    assert_eq!(flight.dispatch_pair(Time::ZERO, split, 0), 1);
    assert!(flight.uses(4) && flight.uses(5) && flight.replica() == Some(4));
    let (split, attempt) = flight.goes_to_decode().expect("it is split");
    assert_eq!((split.at(), attempt, flight.replica()), (5, 2, Some(5)));
    assert!(flight.take_split().is_some() && flight.take_split().is_none());
    assert_eq!(flight.goes_to_decode().map(|(split, _)| split.name), None);
    assert!(flight.uses(5) && !flight.uses(4));
}

// No message overtakes the one before it, and only the first token is the first.
#[test]
fn answers_keep_their_order() {
    let (mut flight, ms) = (flight(Time::ZERO), Time::from_millis);
    assert_eq!([5, 3, 7].map(|at| flight.message(ms(at))), [ms(5), ms(5), ms(7)]);
    flight.first_token_at(ms(5));
    flight.first_token_at(ms(7));
    assert!(flight.has_first_token());
    assert_eq!(flight.record(ms(9), None, Fate::Done).ttft, Duration::from_millis(5));
}

// A request has one end.
#[test]
#[should_panic(expected = "ends twice")]
fn no_second_end() {
    let mut flight = flight(Time::ZERO);
    flight.end();
    flight.end();
}
