//! Searches the smallest fleet that meets an objective: doubles until one does, then bisects.
//!
//! A larger fleet meets an objective more easily, but for chance. So a size that meets it below one that
//! does not is passed over: the result and every larger size that was tried meet the objective, and
//! one replica less does not.

/// The smallest size from `fewest` to `most` from which on all meet the objective, if any does; `known`
/// are sizes that were tried, and whether they meet it.
///
/// # Errors
/// Those of `meets`.
pub(super) fn least(
    known: &[(u32, bool)],
    [fewest, most]: [u32; 2],
    mut meets: impl FnMut(u32) -> anyhow::Result<bool>,
) -> anyhow::Result<Option<u32>> {
    let sizes = |wanted: bool| known.iter().filter(move |(_, met)| *met == wanted).map(|(n, _)| *n);
    let mut missed = sizes(false).max().unwrap_or(0).max(fewest - 1);
    let mut met = sizes(true).filter(|size| *size > missed && *size <= most).min();
    while met.is_none() && missed < most {
        let next = (missed * 2).clamp(missed + 1, most);
        match meets(next)? {
            true => met = Some(next),
            false => missed = next,
        }
    }
    let Some(mut met) = met else { return Ok(None) };
    while met - missed > 1 {
        let middle = missed + (met - missed) / 2;
        match meets(middle)? {
            true => met = middle,
            false => missed = middle,
        }
    }
    Ok(Some(met))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The result, and the sizes that were tried for it.
    fn found(known: &[(u32, bool)], ends: [u32; 2], need: u32) -> (Option<u32>, Vec<u32>) {
        let mut tried = Vec::new();
        let least = least(known, ends, |size| {
            tried.push(size);
            Ok(size >= need)
        });
        (least.unwrap(), tried)
    }

    // The need is found wherever it lies, with few trials, and none outside the ends.
    #[test]
    fn every_need_is_found() {
        for need in 1..=64 {
            let known: Vec<(u32, bool)> = (4..=8).map(|size| (size, size >= need)).collect();
            let (least, tried) = found(&known, [1, 64], need);
            assert_eq!(least, Some(need));
            assert!(tried.len() <= 8 && tried.iter().all(|n| (1..=64).contains(n)), "{tried:?}");
        }
    }

    // A need beyond the end is none; one at the end is found.
    #[test]
    fn the_end_is_the_end() {
        assert_eq!(found(&[(8, false)], [1, 20], 21), (None, vec![16, 20]));
        assert_eq!(found(&[], [1, 20], 20).0, Some(20));
        assert_eq!(found(&[(8, true)], [3, 20], 1), (Some(3), vec![5, 3]));
    }

    // A fluke does not mislead: a smaller fleet that meets the objective is passed over.
    #[test]
    fn a_fluke_is_passed_over() {
        let known = [(4, false), (5, true), (6, false), (7, true)];
        assert_eq!(found(&known, [1, 20], 5), (Some(7), vec![]));
        assert_eq!(found(&known[..3], [1, 20], 5), (Some(7), vec![12, 9, 7]));
        assert_eq!(found(&[(5, true), (20, false)], [1, 20], 5), (None, vec![]));
    }
}
