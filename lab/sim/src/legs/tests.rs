use meridian_engine::{Config, Profile};

use super::*;

/// A prefill and a decode replica, 0 and 1.
fn pair() -> Legs {
    let profile = Profile::named("llama-3.1-8b", "h100", 1).expect("it fits");
    let hardware = |role| Hardware { role, ..Hardware::new(0, Config::new(profile)) };
    let mut legs = Legs::new(&[]);
    assert!(!legs.has_pairs());
    [Role::Prefill, Role::Decode].into_iter().for_each(|role| legs.add(&hardware(role)));
    assert!(legs.has_pairs());
    legs
}

/// A split attempt whose KV crosses.
fn crossing(legs: &mut Legs) -> RequestId {
    let name = legs.begin(RequestId(7), 0, 1).name;
    legs.wait(name);
    legs.ask(name, Time::ZERO, 1e6);
    assert!(legs.cross(name, Time::ZERO));
    name
}

// KV crosses the fabric once, and an attempt that ends is followed no more.
#[test]
fn one_transfer_each() {
    let mut legs = pair();
    let name = crossing(&mut legs);
    assert!(Legs::names(name) && !Legs::names(RequestId(7)));
    assert_eq!((legs.transfers(), legs.of(1).len(), legs.of(2).len()), (1, 1, 0));
    legs.end(Time::ZERO, name);
    legs.end(Time::ZERO, name);
    assert_eq!((legs.transfers(), legs.follows(name)), (0, false));
    assert_eq!(legs.land(name), None);
}

// A cut card lets no KV pass, and a transfer that broke off starts again on a mended one.
#[test]
fn cards_break() {
    let mut legs = pair();
    let name = crossing(&mut legs);
    legs.set_card(1, true);
    assert!(legs.break_off(name, Time::ZERO) && !legs.break_off(name, Time::ZERO));
    assert!(!legs.cross(name, Time::ZERO));
    legs.set_card(1, false);
    assert!(legs.cross(name, Time::ZERO));
    assert_eq!((legs.transfers(), legs.get(name).map(|kv| kv.is_moving())), (1, Some(true)));
}
