//! Reads the cards' counters ten times a second.

use std::thread::sleep;
use std::time::{Duration, Instant};

use meridian_base::Time;
use meridian_cards::counters::{Card, Host, Meter, Use};

/// Between two readings; longer if the counters of all cards take longer.
const STEP: Duration = Duration::from_millis(100);

/// Watches for `span`. Returns the use of each card, and the time that it took.
pub(super) fn watch(host: &Host, cards: &[Card], span: Duration) -> (Vec<Use>, Duration) {
    let start = Instant::now();
    let mut meters: Vec<Meter> = cards.iter().map(Meter::new).collect();
    let mut next = Duration::ZERO;
    loop {
        for (card, meter) in cards.iter().zip(&mut meters) {
            let counts = card.read(host);
            meter.read(Time::ZERO + start.elapsed(), counts);
        }
        let now = start.elapsed();
        if now >= span {
            return (meters.iter().map(Meter::used).collect(), now);
        }
        next = (next + STEP).max(now).min(span);
        sleep(next.saturating_sub(now));
    }
}
