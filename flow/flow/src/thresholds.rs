//! From urgency to levels: the edges of minimal link utilisation (MFS, section 4.3).
//!
//! A continuous urgency becomes one of K levels with the least worst-case relative error when the
//! edges form a geometric series. Each edge is the *lower* end of its level, and the last level's
//! edge is 0: with the paper's bound of infinity for the loosest level no flow could ever leave it.

/// Where the levels start.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Thresholds {
    /// As printed: `U E^-i` from i = 1, so 0.125, 0.031, ... A flow becomes critical when it still
    /// has eight times the time that it needs.
    Paper,
    /// As intended: `U E^-i` from i = 0, so 0.5, 0.125, ...
    Corrected,
    /// `top r^-i` for a custom ratio.
    Geometric {
        /// Utilisation from which a flow is critical, in (0, 1].
        top: f64,
        /// Ratio of neighbouring edges, above 1.
        ratio: f64,
    },
    /// Known bounds of the urgency: the ratio is `(most/least)^(1/(K-1))`.
    Known {
        /// Largest utilisation, the top level's edge.
        most: f64,
        /// Smallest utilisation.
        least: f64,
    },
}

/// Most levels.
pub const MOST_LEVELS: u8 = 16;

/// E and U of section 4.3.
const E: f64 = 4.0;
const U: f64 = 0.5;

/// The edges, from the top level down.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Edges {
    levels: u8,
    edges: [f64; MOST_LEVELS as usize],
}

impl Edges {
    pub(crate) fn new(thresholds: Thresholds, levels: u8) -> Edges {
        let (top, ratio) = match thresholds {
            Thresholds::Paper => (U / E, E),
            Thresholds::Corrected => (U, E),
            Thresholds::Geometric { top, ratio } => (top, ratio),
            Thresholds::Known { most, least } => {
                (most, libm::pow(most / least, 1.0 / f64::from(levels - 1)))
            }
        };
        assert!(ratio > 1.0, "the edges of levels fall");
        let mut edges = [0.0; MOST_LEVELS as usize];
        let mut edge = top;
        for each in edges.iter_mut().take(usize::from(levels) - 1) {
            *each = edge;
            edge /= ratio;
        }
        Edges { levels, edges }
    }

    /// The level of a utilisation: the first whose edge it reaches.
    #[inline]
    pub(crate) fn level(&self, utilisation: f64) -> u8 {
        let edges = &self.edges[..usize::from(self.levels)];
        let found = edges.iter().position(|edge| utilisation >= *edge);
        found.map_or(self.levels - 1, |level| level as u8)
    }

    /// The utilisation above which a flow leaves `level`; infinite for the top level.
    pub(crate) fn above(&self, level: u8) -> f64 {
        match level {
            0 => f64::INFINITY,
            _ => {
                assert!(level < self.levels, "a use has one of the levels");
                self.edges[usize::from(level) - 1]
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edges(thresholds: Thresholds) -> [f64; 4] {
        Edges::new(thresholds, 4).edges[..4].try_into().unwrap()
    }

    // Correction 4: as printed the top level starts at 0.125, as intended at 0.5; both are offered.
    #[test]
    fn correction_4_paper_and_corrected_thresholds() {
        assert_eq!(edges(Thresholds::Paper), [0.125, 0.031_25, 0.007_812_5, 0.0]);
        assert_eq!(edges(Thresholds::Corrected), [0.5, 0.125, 0.031_25, 0.0]);
        let known = edges(Thresholds::Known { most: 0.8, least: 0.1 });
        assert!((known[0] - 0.8).abs() < 1e-12 && (known[1] - 0.4).abs() < 1e-12, "r is 2");
    }

    // Correction 3: the last level's edge is 0, so a flow stays there as long as its utilisation is
    // below the edge above, and leaves it then.
    #[test]
    fn correction_3_the_lowest_level_can_be_left() {
        let edges = Edges::new(Thresholds::Corrected, 8);
        assert_eq!(edges.level(0.0), 7);
        assert_eq!(edges.level(0.5 / 4096.0), 6, "the edge itself belongs to the level above");
        assert_eq!(edges.level(0.3), 1);
        assert_eq!(edges.level(0.5), 0);
        assert_eq!(edges.level(f64::INFINITY), 0);
        assert_eq!(edges.level(f64::NAN), 7, "a flow without a utilisation is not urgent");
    }
}
