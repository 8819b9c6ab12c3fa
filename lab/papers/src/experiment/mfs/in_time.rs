//! The share of requests in time, compared at one rate: the one at which fair sharing has nearest to
//! half of its requests in time.
//!
//! The rate is fixed by a rule that does not look at the system compared. A maximum over rates is
//! biased upwards, since it also picks the rate with the luckiest draw. The best baseline is still
//! chosen on the seeds that it is compared on, which favours the baselines a little.

use meridian_tools::cluster::Score;
use meridian_tools::stats::Mean;
use meridian_tools::table::Table;

use super::sweep::{Sweep, interval};
use crate::experiment::claim::Claim;
use crate::experiment::spec::{Case, Compared, FlowClaim};

/// The system whose share in time fixes the rate.
const FAIR: &str = "fair";

/// A system over the best of others in a case.
struct Ratio {
    case: usize,
    rate: usize,
    of: usize,
    best: usize,
    ratio: Mean,
}

impl Sweep<'_> {
    /// The rate at which fair sharing has nearest to half in time.
    fn half(&self, nth: usize, case: &Case) -> Option<usize> {
        let fair = self.place(FAIR)?;
        let far = |rate: usize| Some(((self.share((nth, rate, fair))? - 0.5).abs(), rate));
        let all = (0..case.rates.len()).filter_map(far);
        all.min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, rate)| rate)
    }

    fn in_time(&self, claim: &FlowClaim) -> Vec<Ratio> {
        let of = |(case, about): (usize, &Case)| {
            let (of, rate) = (self.place(&claim.of)?, self.half(case, about)?);
            let best = self.best(case, rate, &claim.over)?;
            let share = |score: &Score| Some(score.attainment);
            let ratio = self.over((case, rate, of), (case, rate, best), share)?;
            Some(Ratio { case, rate, of, best, ratio })
        };
        self.about(claim).filter_map(of).collect()
    }

    /// A published figure of the share in time, with ours and its interval in each case.
    pub(super) fn hold_in_time(&self, claim: &FlowClaim) -> Claim {
        let all = self.in_time(claim);
        let ratios: Vec<f64> = all.iter().map(|one| one.ratio.mean).collect();
        let shown: Vec<String> = all.iter().map(|one| interval(one.ratio)).collect();
        let claim = Claim::ratios(&claim.what, &claim.source, &claim.published, &ratios);
        if shown.is_empty() { claim } else { Claim { ours: shown.join(", "), ..claim } }
    }

    /// Every comparison of the share in time; `None` if the file has none.
    pub(super) fn in_time_table(&self) -> Option<Table> {
        let header =
            ["figure", "case", "requests/s a GPU", "fair, %", "of, %", "best, %", "of / best"];
        let title = "In time at the rate where fair sharing has nearest to half in time";
        let mut table = Table::new(title, &header);
        let claims = self.spec.published.iter().filter(|c| c.metric == Compared::Attainment);
        for claim in claims {
            for Ratio { case, rate, of, best, ratio } in self.in_time(claim) {
                let percent = |system: usize| {
                    let share = self.share((case, rate, system)).unwrap_or(f64::NAN);
                    format!("{:.1}", 100.0 * share)
                };
                let named = |system: usize| {
                    format!("{} ({})", percent(system), self.spec.systems[system].name)
                };
                let about = &self.spec.cases[case];
                table.row([
                    claim.what.clone(),
                    about.name.clone(),
                    about.rates[rate].to_string(),
                    self.place(FAIR).map_or("-".to_owned(), percent),
                    named(of),
                    named(best),
                    interval(ratio),
                ]);
            }
        }
        (!table.rows.is_empty()).then_some(table)
    }
}
