use super::*;

const RTT: Duration = Duration::from_millis(20);
const EVERY: Duration = Duration::from_millis(100);

// A probe's report is shown once, an RTT after the probe was sent.
#[test]
fn probes_are_shown_once() {
    let beats = Beats::of(1, EVERY);
    let sent = beats.from(Time::ZERO);
    let mut seen = OfReplica::default();
    assert_eq!(seen.ask(sent + RTT / 2, RTT, beats), None);
    assert_eq!(seen.next(), sent + RTT);
    assert_eq!(seen.ask(sent + RTT, RTT, beats), Some(sent));
    assert_eq!(seen.ask(sent + RTT * 2, RTT, beats), None);
    assert_eq!(seen.next(), sent + EVERY + RTT);
    assert!(seen.may_open(sent + RTT / 2, RTT) && !seen.may_open(sent, RTT));
}

// A report stands until the replica's changes, and after a failure there is none.
#[test]
fn reports_stand() {
    let mut seen = OfReplica::default();
    let change = |ms| Change { at: Time::from_millis(ms), region: 0 };
    assert_eq!(seen.unchanged(change(1)), None);
    seen.hear(Time::from_millis(5), Some(Load::default()));
    assert_eq!(seen.unchanged(change(4)), Some(Load::default()));
    assert_eq!(seen.unchanged(change(5)), None);
    seen.hear(Time::from_millis(6), None);
    assert_eq!(seen.unchanged(change(4)), None);
}

// Probes of a suspended replica fail one after another, each after its timeout.
#[test]
fn probes_time_out() {
    let mut seen = OfReplica::default();
    let since = Time::from_millis(50);
    assert!(!seen.times_out(since, since));
    assert_eq!(seen.next(), since + PROBE_TIMEOUT);
    assert!(seen.times_out(since + PROBE_TIMEOUT, since));
    assert!(!seen.times_out(since + PROBE_TIMEOUT, since));
    assert!(seen.times_out(since + PROBE_TIMEOUT * 2, since));
}

// After a change of replicas every report is looked up again.
#[test]
fn changes_end_the_quiet() {
    let (mut shown, ms) = (Shown::default(), Time::from_millis);
    shown.resize(1);
    shown.replica(0).hear(ms(1), Some(Load::default()));
    shown.quiet_until(ms(9));
    assert!(shown.is_quiet(ms(8)) && !shown.is_quiet(ms(9)));
    shown.replicas_changed();
    assert!(!shown.is_quiet(ms(8)));
    assert_eq!(shown.of_replica(0).unchanged(Change { at: ms(0), region: 0 }), None);
    assert_eq!(shown.of_replica(5).next(), Time::ZERO);
}

// A peer's digests are shown once, and looked up again when its version changes.
#[test]
fn peers_are_looked_up() {
    let (mut shown, ms) = (Shown::default(), Time::from_millis);
    assert!(!shown.is_quiet_about(2, 0, ms(1)));
    shown.peer(2).looked(ms(5), ms(4), 1);
    assert!(shown.is_quiet_about(2, 1, ms(3)) && !shown.is_quiet_about(2, 2, ms(3)));
    assert!(!shown.is_quiet_about(2, 1, ms(4)));
    assert!(shown.peer(2).hear(7) && !shown.peer(2).hear(7));
    assert_eq!((shown.of_peer(2).number(), shown.of_peer(2).next()), (7, ms(5)));
}

// A gateway wakes for the earliest message, once.
#[test]
fn one_wake() {
    let (mut shown, ms) = (Shown::default(), Time::from_millis);
    assert!(shown.wake_at(ms(9), ms(0)) && !shown.wake_at(ms(9), ms(0)));
    assert!(shown.wake_at(ms(5), ms(0)));
    assert!(!shown.wakes(ms(9)) && shown.wakes(ms(5)) && !shown.wakes(ms(5)));
}
