//! Searches the highest rate that meets an objective: doubles until one misses it, then bisects.
//!
//! It assumes that a higher rate never meets the objective more easily. Measurements are noisy, so
//! near the limit that holds only on average; [`super`] repeats the search.

/// A search in progress.
#[derive(Clone, Debug)]
pub(super) struct Search {
    first: f64,
    least: f64,
    most: f64,
    precision: f64,
    /// The highest rate so far that met the objective.
    met: Option<f64>,
    /// The lowest that missed it.
    missed: Option<f64>,
}

impl Search {
    /// A search that begins at `first` and ends when the rates that meet and miss the objective are
    /// this share apart.
    pub(super) fn new(first: f64, [least, most]: [f64; 2], precision: f64) -> Search {
        let first = round(first).clamp(least, most);
        Search { first, least, most, precision, met: None, missed: None }
    }

    /// The next rate to measure; `None` at the end.
    pub(super) fn next(&self) -> Option<f64> {
        match (self.met, self.missed) {
            (None, None) => Some(self.first),
            (Some(met), None) => (met < self.most).then(|| (met * 2.0).min(self.most)),
            (None, Some(missed)) => {
                (missed > self.least).then(|| round(missed / 2.0).max(self.least))
            }
            (Some(met), Some(missed)) => {
                let middle = round(libm::sqrt(met * missed));
                let wide = missed / met > 1.0 + self.precision;
                Some(middle).filter(|rate| wide && *rate > met && *rate < missed)
            }
        }
    }

    /// Records whether `rate` met the objective.
    pub(super) fn tell(&mut self, rate: f64, met: bool) {
        match met {
            true => self.met = Some(self.met.map_or(rate, |known| known.max(rate))),
            false => self.missed = Some(self.missed.map_or(rate, |known| known.min(rate))),
        }
    }

    /// The highest rate that met the objective.
    pub(super) fn found(&self) -> Option<f64> {
        self.met
    }

    /// Measurements to the end, if the next one is the last of its kind.
    pub(super) fn left(&self) -> u32 {
        let halvings = |ratio: f64| {
            let steps = libm::log2(libm::log(ratio) / libm::log(1.0 + self.precision));
            steps.ceil().max(0.0) as u32
        };
        match (self.met, self.missed) {
            (Some(met), Some(missed)) => halvings(missed / met),
            _ if self.next().is_none() => 0,
            _ => 1 + halvings(2.0),
        }
    }
}

/// The number to three digits.
fn round(value: f64) -> f64 {
    let scale = libm::pow(10.0, 2.0 - libm::floor(libm::log10(value)));
    (value * scale).round() / scale
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rates that a search measures if those up to `limit` meet the objective.
    fn rates(mut search: Search, limit: f64) -> (Vec<f64>, Option<f64>) {
        let mut rates = Vec::new();
        while let Some(rate) = search.next() {
            assert!(search.left() >= 1, "{rates:?}");
            rates.push(rate);
            search.tell(rate, rate <= limit);
            assert!(rates.len() < 100);
        }
        assert_eq!(search.left(), 0);
        (rates, search.found())
    }

    // Doubles, then bisects to within the precision, from either side of the limit.
    #[test]
    fn finds_the_limit() {
        let search = |first| Search::new(first, [0.01, 1000.0], 0.1);
        let (all, found) = rates(search(1.0), 11.0);
        assert_eq!(all, [1.0, 2.0, 4.0, 8.0, 16.0, 11.3, 9.51, 10.4]);
        assert_eq!(found, Some(10.4));
        let (all, found) = rates(search(64.0), 11.0);
        assert_eq!(all[..4], [64.0, 32.0, 16.0, 8.0]);
        assert_eq!(found, Some(10.4));
        for limit in [0.013, 0.9, 7.7, 333.0] {
            let found = rates(search(3.0), limit).1.expect("a rate");
            assert!(found <= limit && found * 1.1 * 1.01 > limit, "{limit}: {found}");
        }
    }

    // An objective that no rate meets, and one that every rate meets, end at the bounds.
    #[test]
    fn ends_at_the_bounds() {
        let search = || Search::new(1.0, [0.25, 6.0], 0.1);
        assert_eq!(rates(search(), 0.0), (vec![1.0, 0.5, 0.25], None));
        assert_eq!(rates(search(), 1e9), (vec![1.0, 2.0, 4.0, 6.0], Some(6.0)));
    }
}
