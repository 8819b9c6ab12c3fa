//! The clients' results over time: each load's own lines, with their arrival times.
//!
//! It shows how far TTFT rose, how soon it recovered after the repair, and how much was answered
//! during faults. On a machine with shared cores these numbers are reported, not asserted.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use meridian_base::median;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::super::region::Region;
use crate::Live;

/// A region's TTFT has recovered when a second's median is at most this many times the calm one.
const BACK: f64 = 1.5;

/// The last part of the calm period, when the load has started up.
const SETTLED: Duration = Duration::from_secs(3);

/// One line of one load.
struct Beat {
    load: usize,
    at: Instant,
    live: Live,
}

/// Records the lines of all loads as they arrive.
pub(super) struct Pulse {
    beats: Arc<Mutex<Vec<Beat>>>,
    tasks: Vec<JoinHandle<()>>,
}

/// The results.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Course {
    /// Median TTFT before the first fault, ms.
    pub(super) calm: Option<f64>,
    /// The worst one-second median of one region's clients until the repair, ms.
    pub(super) worst: Option<f64>,
    /// Time from the repair until every region's TTFT had recovered.
    pub(super) back: Option<Duration>,
    /// Answers a second before the first fault, and from then to the repair.
    pub(super) rates: [f64; 2],
}

impl Pulse {
    pub(super) fn of(regions: &[Region]) -> Pulse {
        let beats = Arc::new(Mutex::new(Vec::new()));
        let loads = regions.iter().filter_map(|region| region.load.as_ref()).enumerate();
        let tasks = loads.map(|(load, running)| {
            let (mut line, beats) = (running.process.line(), beats.clone());
            tokio::spawn(async move {
                while line.changed().await.is_ok() {
                    let live = serde_json::from_str(&line.borrow_and_update());
                    let Ok(live) = live else { continue };
                    let beat = Beat { load, at: Instant::now(), live };
                    beats.lock().unwrap_or_else(PoisonError::into_inner).push(beat);
                }
            })
        });
        Pulse { tasks: tasks.collect(), beats }
    }

    pub(super) fn course(&self, broken: Instant, healed: Instant) -> Course {
        let beats = self.beats.lock().unwrap_or_else(PoisonError::into_inner);
        let ttft = |beat: &Beat| beat.live.recent_ttft_ms.p50;
        let calm_of = |loads: std::ops::Range<usize>| {
            let before = beats.iter().filter(|b| b.at < broken && loads.contains(&b.load));
            median(&before.filter_map(ttft).collect::<Vec<_>>())
        };
        let loads = 0..self.tasks.len();
        let during = beats.iter().filter(|beat| (broken..healed).contains(&beat.at));
        let worst = during.filter_map(ttft).max_by(f64::total_cmp);
        let back_of = |load: usize| {
            let calm = calm_of(load..load + 1)?;
            let mut after = beats.iter().filter(|b| b.at >= healed && b.load == load);
            let back = after.find(|beat| ttft(beat).is_some_and(|ttft| ttft <= BACK * calm))?;
            Some(back.at - healed)
        };
        let backs: Option<Vec<Duration>> = loads.clone().map(back_of).collect();
        let rate = |from: Instant, to: Instant| {
            let answered = |at: Instant| -> f64 {
                let last = |load| beats.iter().rfind(|b| b.load == load && b.at <= at);
                loads.clone().filter_map(last).map(|beat| beat.live.ok as f64).sum()
            };
            (answered(to) - answered(from)) / (to - from).as_secs_f64().max(0.1)
        };
        let rates = [rate(broken - SETTLED, broken), rate(broken, healed)];
        let back = backs.and_then(|backs| backs.into_iter().max());
        Course { calm: calm_of(loads), worst, back, rates }
    }
}

impl Drop for Pulse {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}
