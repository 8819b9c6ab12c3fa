//! The report as data: the JSON document, and what the text is made from.

mod legs;
mod transfers;
mod value;

use std::time::Duration;

use meridian_cards::counters::{Card, Found, Kind, Use};
use meridian_cards::worth::Layers;
use serde::Serialize;

pub(super) use legs::GatewayReport;
pub(super) use transfers::EngineReport;
pub(super) use value::{Gain, Interval, Where, Worth};

/// Everything that was found.
#[derive(Serialize)]
pub(super) struct Report {
    /// The time that the cards were watched.
    pub(super) seconds: f64,
    pub(super) cards: Vec<CardReport>,
    pub(super) not_watched: Vec<NotWatched>,
    pub(super) engines: Vec<EngineReport>,
    pub(super) gateways: Vec<GatewayReport>,
    pub(super) worth: Worth,
}

/// A card's use. Percentages are of its rate.
#[derive(Serialize)]
pub(super) struct CardReport {
    pub(super) card: String,
    pub(super) kind: &'static str,
    pub(super) gbps: Option<f64>,
    pub(super) counted_by: String,
    pub(super) sent_bytes: u64,
    pub(super) received_bytes: u64,
    pub(super) sent_percent: Option<f64>,
    pub(super) received_percent: Option<f64>,
    pub(super) busiest_second_percent: Option<f64>,
    pub(super) time_above_80_percent: Option<f64>,
    pub(super) notes: Vec<String>,
}

/// A card that is not watched.
#[derive(Serialize)]
pub(super) struct NotWatched {
    pub(super) card: String,
    pub(super) reason: &'static str,
}

/// Joins the measurements.
pub(super) fn report(
    found: &Found,
    uses: &[Use],
    took: Duration,
    (mut engines, gateways): (Vec<EngineReport>, Vec<GatewayReport>),
    layers: Layers,
) -> Report {
    let cards: Vec<CardReport> = found.cards.iter().zip(uses).map(card).collect();
    let known = found.cards.iter().zip(uses);
    let known = known.filter_map(|(card, used)| Some((card, used.share()?)));
    let busiest = known.max_by(|a, b| a.1.total_cmp(&b.1));
    if let Some((card, rate)) = busiest.and_then(|(card, _)| Some((card, card.rate?))) {
        engines.iter_mut().for_each(|engine| engine.compare(&card.name, rate.gigabits()));
    }
    let not_watched = found.skipped.iter();
    Report {
        seconds: took.as_secs_f64(),
        cards,
        not_watched: not_watched
            .map(|one| NotWatched { card: one.name.clone(), reason: one.why })
            .collect(),
        engines,
        gateways,
        worth: value::worth(busiest.map(|(card, used)| (card.name.clone(), used)), layers),
    }
}

fn card((card, used): (&Card, &Use)) -> CardReport {
    let percent = |share: f64| 100.0 * share;
    CardReport {
        card: card.name.clone(),
        kind: card.kind.name(),
        gbps: card.rate.map(|rate| rate.gigabits()),
        counted_by: card.source.clone(),
        sent_bytes: used.bytes[0],
        received_bytes: used.bytes[1],
        sent_percent: used.mean.map(|mean| percent(mean[0])),
        received_percent: used.mean.map(|mean| percent(mean[1])),
        busiest_second_percent: used.busiest_second.map(percent),
        time_above_80_percent: used.above.map(percent),
        notes: notes(card, used),
    }
}

/// Limits of a card's numbers, each with its remedy.
fn notes(card: &Card, used: &Use) -> Vec<String> {
    let mut notes = card.notes.clone();
    let Use { measured, absences, resets, .. } = *used;
    if card.rate.is_none() {
        let name = &card.name;
        notes.push(format!("it does not tell its rate; give it, as in --rate {name}=25Gbps"));
    }
    if measured.is_zero() && absences > 0 {
        let why = "its counters could not be read; it may have left";
        notes.extend(card.notes.is_empty().then(|| why.to_owned()));
    } else if absences > 0 {
        notes.push(format!("it was absent at {absences} readings, which do not count"));
    }
    if resets > 0 {
        notes.push(format!("its counters were reset {resets} times; those intervals do not count"));
    }
    if used.share().is_some_and(|share| share > 1.05) {
        notes.push("it carried more than its rate; give the true one with --rate".to_owned());
    } else if used.is_coarse {
        let why =
            "its driver refreshes the counters too seldom to see bursts, or its rate is higher";
        notes.push(format!("{why}; the mean is right if the rate is"));
    }
    if card.kind == Kind::Virtual {
        notes.push("it is virtual: its bytes may not cross a cable".to_owned());
    }
    notes
}
