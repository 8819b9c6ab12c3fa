//! The clients' results over time: how far TTFT rose, how soon it recovered after a repair, and how
//! much was answered during faults.
//!
//! On a machine with shared cores these numbers are reported, not asserted.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use meridian_base::{median, quantile};
use tokio::task::JoinHandle;

use super::answers::End;
use super::clients::Record;
use super::done::Done;
use crate::Live;
use crate::up::region::Region;

/// TTFT has recovered when it is at most this many times the calm one.
const BACK: f64 = 1.5;
/// Of clients that know their answers, TTFT is the P90 of this many consecutive requests.
const IN_A_ROW: usize = 20;
/// The last part of the calm period, when the load has started up.
const SETTLED: Duration = Duration::from_secs(3);

/// TTFT of a group of clients at a time, ms.
struct Ttft {
    group: usize,
    at: Instant,
    ttft: f64,
}

/// The results.
pub(super) struct Course {
    /// TTFT of each group before the first fault, ms.
    calm: Vec<Option<f64>>,
    /// In the order of their times.
    points: Vec<Ttft>,
    /// When answers were counted, and how many.
    answers: Vec<(Instant, f64)>,
}

impl Course {
    /// The requests of clients that know their answers, as one group.
    pub(super) fn of_records(records: &[Record], done: &[Done]) -> Course {
        let mut sent: Vec<(Instant, f64)> = records
            .iter()
            .filter_map(|record| Some((record.sent, record.ttft?.as_secs_f64() * 1e3)))
            .collect();
        sent.sort_by_key(|(at, _)| *at);
        let p90 = |row: &[(Instant, f64)]| {
            quantile(&row.iter().map(|(_, ttft)| *ttft).collect::<Vec<_>>(), 0.9)
        };
        let before =
            done.first().map_or(0, |first| sent.partition_point(|(at, _)| *at < first.from));
        let point = |row: &[(Instant, f64)]| Some(Ttft { group: 0, at: row[0].0, ttft: p90(row)? });
        let answered = records.iter().filter(|record| record.end == End::Whole);
        Course {
            calm: vec![p90(&sent[..before])],
            points: sent.windows(IN_A_ROW).filter_map(point).collect(),
            answers: answered.map(|record| (record.ended, 1.0)).collect(),
        }
    }

    /// TTFT before the first fault, ms.
    pub(super) fn before(&self) -> Option<f64> {
        median(&self.calm.iter().copied().flatten().collect::<Vec<_>>())
    }

    /// The worst of a group during the faults, ms.
    pub(super) fn worst(&self, done: &[Done]) -> Option<f64> {
        let broken = |at| done.iter().any(|fault| (fault.from..fault.mended).contains(&at));
        let during = self.points.iter().filter(|point| broken(point.at));
        during.map(|point| point.ttft).max_by(f64::total_cmp)
    }

    /// Time from a repair until every group's TTFT recovered; none if that was not observed.
    pub(super) fn back(&self, fault: &Done) -> Option<Duration> {
        let back = |(group, calm): (usize, &Option<f64>)| {
            let good = BACK * (*calm)?;
            let mut after = self.points.iter().filter(|p| p.group == group && p.at >= fault.mended);
            Some(after.find(|point| point.ttft <= good)?.at - fault.mended)
        };
        let backs: Option<Vec<Duration>> = self.calm.iter().enumerate().map(back).collect();
        backs?.into_iter().max()
    }

    /// Answers a second until the last repair, as a share of those before the first fault.
    pub(super) fn rate(&self, done: &[Done]) -> Option<f64> {
        let (from, to) = (done.first()?.from, done.iter().map(|fault| fault.mended).max()?);
        let rate = |from: Instant, to: Instant| {
            let counted = self.answers.iter().filter(|(at, _)| *at > from && *at <= to);
            counted.map(|(_, count)| count).sum::<f64>() / (to - from).as_secs_f64().max(0.1)
        };
        Some(rate(from, to) / rate(from - SETTLED, from).max(0.1))
    }
}

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

    /// The results so far, each load a group. Its TTFT is the median of a second.
    pub(super) fn course(&self, done: &[Done]) -> Course {
        let beats = self.beats.lock().unwrap_or_else(PoisonError::into_inner);
        let ttft = |beat: &Beat| {
            let ttft = beat.live.recent_ttft_ms.p50?;
            Some(Ttft { group: beat.load, at: beat.at, ttft })
        };
        let points: Vec<Ttft> = beats.iter().filter_map(ttft).collect();
        let is_calm = |point: &&Ttft| done.first().is_some_and(|first| point.at < first.from);
        let calm = |load| {
            let before = points.iter().filter(is_calm).filter(|point| point.group == load);
            median(&before.map(|point| point.ttft).collect::<Vec<_>>())
        };
        let mut counted = vec![0; self.tasks.len()];
        let mut more =
            |beat: &Beat| beat.live.ok - std::mem::replace(&mut counted[beat.load], beat.live.ok);
        Course {
            calm: (0..self.tasks.len()).map(calm).collect(),
            answers: beats.iter().map(|beat| (beat.at, more(beat) as f64)).collect(),
            points,
        }
    }
}

impl Drop for Pulse {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}
