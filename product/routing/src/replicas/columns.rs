//! The columns of the replica table.

use alloc::vec::Vec;

use crate::row::Row;

/// The rows' figures that the default policy scores by, each in an array by id: a scan of a
/// thousand reads a third of the bytes of the rows, several replicas at once.
#[derive(Debug, Default)]
pub(crate) struct Columns {
    pub(crate) front_tokens: Vec<f32>,
    pub(crate) utilisation: Vec<f32>,
    pub(crate) trust: Vec<f32>,
    pub(crate) ms_per_token: Vec<f32>,
    pub(crate) step_slope_ms: Vec<f32>,
    pub(crate) running: Vec<f32>,
    /// 1 for a replica that works in a pair with another, otherwise 0.
    pub(crate) pairs: Vec<f32>,
    pub(crate) rtt_ms: Vec<f32>,
    /// Whether any replica was ever in another region: round trips then count in scores.
    pub(crate) far: bool,
}

impl Columns {
    pub(super) fn of_rows(rows: &[Row]) -> Columns {
        let mut columns = Columns::default();
        columns.resize(rows.len());
        rows.iter().enumerate().for_each(|(at, row)| columns.set(at, row));
        columns
    }

    pub(super) fn resize(&mut self, width: usize) {
        self.front_tokens.resize(width, 0.0);
        self.utilisation.resize(width, 0.0);
        self.trust.resize(width, 0.0);
        self.ms_per_token.resize(width, 0.0);
        self.step_slope_ms.resize(width, 0.0);
        self.running.resize(width, 0.0);
        self.pairs.resize(width, 0.0);
        self.rtt_ms.resize(width, 0.0);
    }

    pub(super) fn set(&mut self, at: usize, row: &Row) {
        self.front_tokens[at] = row.front_tokens;
        self.utilisation[at] = row.utilisation;
        self.trust[at] = row.trust;
        self.ms_per_token[at] = row.ms_per_token;
        self.step_slope_ms[at] = row.step_slope_ms;
        self.running[at] = row.running as f32;
        self.pairs[at] = if row.pool.pairs() { 1.0 } else { 0.0 };
        self.rtt_ms[at] = row.rtt_ms;
        self.far |= row.rtt_ms > 0.0;
    }
}
