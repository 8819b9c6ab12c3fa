//! Bottleneck assignment: pairs members so that the worst pair is as good as possible (the min-max
//! of the paper's equation 6).
//!
//! A bisection over the costs that occur tries thresholds; at each, augmenting paths show whether
//! every row finds a partner.

/// The partner of each row of a square matrix of costs.
pub(crate) fn bottleneck(costs: &[Vec<f64>]) -> Vec<usize> {
    let mut levels: Vec<f64> = costs.iter().flatten().copied().collect();
    levels.sort_by(f64::total_cmp);
    levels.dedup();
    let (mut low, mut high) = (0, levels.len().saturating_sub(1));
    let mut found = (0..costs.len()).collect();
    while low <= high && !levels.is_empty() {
        let middle = low.midpoint(high);
        match matching(costs, levels[middle]) {
            Some(pairs) => {
                found = pairs;
                let Some(next) = middle.checked_sub(1) else { break };
                high = next;
            }
            None => low = middle + 1,
        }
    }
    found
}

/// A perfect matching over the pairs that cost at most `most`.
fn matching(costs: &[Vec<f64>], most: f64) -> Option<Vec<usize>> {
    let mut taken: Vec<Option<usize>> = vec![None; costs.len()];
    for row in 0..costs.len() {
        let mut seen = vec![false; costs.len()];
        if !augment(costs, most, row, &mut seen, &mut taken) {
            return None;
        }
    }
    let mut partner = vec![0; costs.len()];
    for (column, row) in taken.iter().enumerate() {
        partner[(*row)?] = column;
    }
    Some(partner)
}

fn augment(
    costs: &[Vec<f64>],
    most: f64,
    row: usize,
    seen: &mut [bool],
    taken: &mut [Option<usize>],
) -> bool {
    for column in 0..costs.len() {
        if costs[row][column] > most || seen[column] {
            continue;
        }
        seen[column] = true;
        if taken[column].is_none_or(|other| augment(costs, most, other, seen, taken)) {
            taken[column] = Some(row);
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use meridian_base::Rng;

    use super::*;

    fn worst(costs: &[Vec<f64>], pairs: &[usize]) -> f64 {
        pairs.iter().enumerate().map(|(row, column)| costs[row][*column]).fold(0.0, f64::max)
    }

    fn best_of_all(costs: &[Vec<f64>], row: usize, free: &mut Vec<usize>) -> f64 {
        if row == costs.len() {
            return 0.0;
        }
        let mut best = f64::INFINITY;
        for at in 0..free.len() {
            let column = free.swap_remove(at);
            best = best.min(costs[row][column].max(best_of_all(costs, row + 1, free)));
            free.push(column);
            let last = free.len() - 1;
            free.swap(at, last);
        }
        best
    }

    // Correction 8: the pairing's worst pair is that of the best of all pairings.
    #[test]
    fn correction_8_stages_meet_by_a_bottleneck_assignment() {
        let mut rng = Rng::new(8);
        for case in 0..200 {
            let n = 1 + case % 6;
            let costs: Vec<Vec<f64>> =
                (0..n).map(|_| (0..n).map(|_| (rng.below(9)) as f64).collect()).collect();
            let pairs = bottleneck(&costs);
            let mut sorted = pairs.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, (0..n).collect::<Vec<_>>());
            assert_eq!(worst(&costs, &pairs), best_of_all(&costs, 0, &mut (0..n).collect()));
        }
        assert!(bottleneck(&[]).is_empty());
    }
}
