//! Where MFS is ahead of two static classes, level with them, or behind.
//!
//! Static classes need neither deadlines nor a coordinator, so they are the alternative to beat:
//! where they are level, they are the better choice.

use meridian_tools::cluster::Score;
use meridian_tools::stats::{self, Mean};
use meridian_tools::table::Table;

use super::{Load, at, grid};
use crate::experiment::claim::Claim;

/// Requests in time that differ by this share are level.
const LEVEL: f64 = 0.01;
/// Points of requests in time that are far ahead.
const FAR: f64 = 5.0;

/// How MFS compares with another system, by requests in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// By more than 5 points.
    FarAhead,
    /// By more than 1 %, and up to 5 points.
    Ahead,
    /// Within 1 %.
    Level,
    /// By more than 1 %.
    Behind,
}

impl Standing {
    const ALL: [Standing; 4] =
        [Standing::FarAhead, Standing::Ahead, Standing::Level, Standing::Behind];

    /// By the ratio of requests in time, and their difference in points.
    pub(super) fn of(ratio: f64, points: f64) -> Standing {
        if ratio < 1.0 - LEVEL {
            Standing::Behind
        } else if ratio <= 1.0 + LEVEL {
            Standing::Level
        } else if points > FAR {
            Standing::FarAhead
        } else {
            Standing::Ahead
        }
    }

    fn name(self) -> &'static str {
        match self {
            Standing::FarAhead => "ahead by more than 5 points",
            Standing::Ahead => "ahead",
            Standing::Level => "level within 1 %",
            Standing::Behind => "behind",
        }
    }
}

impl Load<'_> {
    /// Points of requests in time by which ours is ahead of another system.
    fn points(&self, spot: usize, other: usize) -> Option<Mean> {
        let percent = |score: &Score| Some(100.0 * score.attainment);
        let (ours, theirs) = self.sweep.pairs(at(spot, self.ours), at(spot, other), percent);
        let ahead: Vec<f64> = ours.iter().zip(&theirs).map(|(a, b)| a - b).collect();
        stats::mean(&ahead)
    }

    fn standing(&self, spot: usize, other: usize) -> Option<Standing> {
        let (ratio, points) = (self.in_time(spot, other)?, self.points(spot, other)?);
        Some(Standing::of(ratio.mean, points.mean))
    }

    /// Every cell compared with the first static classes, the largest lead first.
    pub(super) fn standings(&self) -> Table {
        let classes = self.spec.classes.first().map_or("", String::as_str);
        let mut cells: Vec<(usize, Standing, Mean)> = Vec::new();
        if let Some(other) = self.sweep.place(classes) {
            cells.extend((0..self.spots.len()).filter_map(|spot| {
                Some((spot, self.standing(spot, other)?, self.points(spot, other)?))
            }));
        }
        cells.sort_by(|a, b| b.2.mean.total_cmp(&a.2.mean));
        let counts = Standing::ALL.map(|one| {
            let count = cells.iter().filter(|(_, standing, _)| *standing == one).count();
            format!("{count} {}", one.name())
        });
        let title = format!("mfs and {classes}, requests in time: {}", counts.join(", "));
        let fixed = ["busiest card, %", "mfs", "points"];
        let header = grid::COLUMNS.into_iter().chain(fixed);
        let mut table = Table::new(title, &header.collect::<Vec<_>>());
        for (spot, standing, Mean { mean, low, high }) in cells {
            let used = self.used(spot).map_or("-".to_owned(), |used| format!("{:.1}", used.mean));
            let points = format!("{mean:+.1} ({low:+.1} to {high:+.1})");
            let columns = self.spots[spot].columns().into_iter();
            let open = low < 0.0 && high > 0.0 && standing != Standing::Level;
            let name = format!("{}{}", standing.name(), if open { ", not certain" } else { "" });
            table.row(columns.chain([used, name, points]));
        }
        table
    }

    /// The target: MFS is never behind a rival or static classes.
    pub(super) fn targets(&self) -> Vec<Claim> {
        let target = |name: &String| {
            let other = self.sweep.place(name)?;
            let all = (0..self.spots.len()).filter_map(|spot| self.standing(spot, other));
            let all: Vec<Standing> = all.collect();
            let held = all.iter().filter(|one| **one != Standing::Behind).count();
            let what = format!("mfs is at most 1 % behind {name} in requests in time");
            Some(Claim::target(&what, held, all.len()))
        };
        self.spec.classes.iter().chain(&self.spec.rivals).filter_map(target).collect()
    }
}
