//! Prefix similarity of requests, within and across users and regions.
//!
//! SkyWalker, section 3.2: of two requests, `len(common prefix) / min(len)`, averaged over all
//! pairs. Replies count as parts of prompts: a later turn starts with the earlier ones.

use std::collections::BTreeMap;

use crate::{Generator, ProgramKey, Segment, prompt_of};

/// A request with its client and prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The region of its client.
    pub region: u32,
    /// The key for hashing policies: for chat the user.
    pub user: u64,
    /// The whole prompt.
    pub prompt: Vec<Segment>,
}

/// The mean prefix similarity of pairs of requests; 0 if there are no such pairs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Similarity {
    /// Both of one user.
    pub within_user: f64,
    /// Of different users, wherever they are.
    pub across_users: f64,
    /// Of different users in one region.
    pub across_users_in_region: f64,
    /// Of different regions.
    pub across_regions: f64,
}

impl Similarity {
    /// The similarity of requests of one user divided by that of different users.
    #[must_use]
    pub fn ratio(&self) -> f64 {
        if self.across_users > 0.0 { self.within_user / self.across_users } else { f64::INFINITY }
    }
}

/// The requests of the first `programs` programs of each of `regions` regions.
#[must_use]
pub fn asked(generator: &dyn Generator, seed: u64, regions: u32, programs: u64) -> Vec<Asked> {
    let mut out = Vec::new();
    for region in 0..regions {
        for ordinal in 0..programs {
            let program = generator.program(ProgramKey { seed, region, client: 0, ordinal });
            out.extend((0..program.nodes.len()).map(|node| {
                let prompt = prompt_of(&program, node);
                Asked { region, user: program.session, prompt }
            }));
        }
    }
    out
}

/// Compares every pair of `asked`: n^2 / 2 comparisons, most of them of one segment. The published
/// ratios are met on 3 regions with 1,000 conversations each; with fewer, more of a user's pairs
/// are within one conversation.
#[must_use]
pub fn similarity(asked: &[Asked]) -> Similarity {
    let (mut within, mut near, mut far) = (Mean::default(), Mean::default(), Mean::default());
    for (i, a) in asked.iter().enumerate() {
        for b in &asked[..i] {
            let mean = match () {
                () if a.user == b.user => &mut within,
                () if a.region == b.region => &mut near,
                () => &mut far,
            };
            mean.add(pair_similarity(&a.prompt, &b.prompt));
        }
    }
    let across = Mean { sum: near.sum + far.sum, count: near.count + far.count };
    Similarity {
        within_user: within.value(),
        across_users: across.value(),
        across_users_in_region: near.value(),
        across_regions: far.value(),
    }
}

/// The mean similarity between every two of the first `users` users with at least two requests: a
/// square, row after row, with the similarity within a user on its diagonal.
#[must_use]
pub fn similarity_heatmap(asked: &[Asked], users: usize) -> Vec<Vec<f64>> {
    let mut counts: BTreeMap<u64, u32> = BTreeMap::new();
    asked.iter().for_each(|a| *counts.entry(a.user).or_default() += 1);
    let mut place: BTreeMap<u64, usize> = BTreeMap::new();
    for a in asked.iter().filter(|a| counts[&a.user] > 1) {
        let next = place.len();
        if next < users {
            place.entry(a.user).or_insert(next);
        }
    }
    let mut means = vec![vec![Mean::default(); place.len()]; place.len()];
    let shown: Vec<(usize, &Asked)> =
        asked.iter().filter_map(|a| Some((*place.get(&a.user)?, a))).collect();
    for (i, (row, a)) in shown.iter().enumerate() {
        for (column, b) in &shown[..i] {
            let value = pair_similarity(&a.prompt, &b.prompt);
            means[*row][*column].add(value);
            if row != column {
                means[*column][*row].add(value);
            }
        }
    }
    means.iter().map(|row| row.iter().map(Mean::value).collect()).collect()
}

/// `len(common prefix) / min(len)` of two prompts; 0 when one is empty.
#[must_use]
pub fn pair_similarity(a: &[Segment], b: &[Segment]) -> f64 {
    let shared = common_prefix(a, b);
    if shared == 0 {
        return 0.0;
    }
    let bytes = |s: &[Segment]| s.iter().map(|s| u64::from(s.bytes)).sum::<u64>();
    shared as f64 / bytes(a).min(bytes(b)) as f64
}

/// Bytes of common prefix of two prompts.
fn common_prefix(a: &[Segment], b: &[Segment]) -> u64 {
    let mut shared = 0;
    for (x, y) in a.iter().zip(b) {
        if x.id != y.id {
            break;
        }
        shared += u64::from(x.bytes.min(y.bytes));
        if x.bytes != y.bytes {
            break;
        }
    }
    shared
}

#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    sum: f64,
    count: u64,
}

impl Mean {
    fn add(&mut self, value: f64) {
        self.sum += value;
        self.count += 1;
    }

    fn value(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum / self.count as f64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Role;

    fn prompt(parts: &[(u64, u32)]) -> Vec<Segment> {
        let segment = |&(id, bytes): &(u64, u32)| Segment { role: Role::User, id, bytes };
        parts.iter().map(segment).collect()
    }

    // A prefix of the other is fully similar; otherwise the shared bytes count over the shorter
    // one, also if a shared template is cut at different lengths.
    #[test]
    fn pairs() {
        let long = prompt(&[(1, 100), (2, 50), (3, 50)]);
        assert_eq!(pair_similarity(&prompt(&[(1, 100), (2, 50)]), &long), 1.0);
        assert_eq!(pair_similarity(&prompt(&[(1, 40), (9, 60)]), &long), 0.4);
        assert_eq!(pair_similarity(&prompt(&[(8, 100)]), &long), 0.0);
        assert_eq!(pair_similarity(&[], &long), 0.0);
    }

    // Means are taken over the right pairs: one pair within a user, one across users of a region,
    // two across regions; the heatmap has the same and omits users with a single request.
    #[test]
    fn pairs_are_distinguished() {
        let asked = [
            Asked { region: 0, user: 1, prompt: prompt(&[(1, 10)]) },
            Asked { region: 0, user: 1, prompt: prompt(&[(1, 20)]) },
            Asked { region: 1, user: 2, prompt: prompt(&[(1, 5), (7, 5)]) },
        ];
        let got = similarity(&asked);
        assert_eq!((got.within_user, got.across_regions), (1.0, 0.5));
        assert_eq!((got.across_users, got.across_users_in_region), (0.5, 0.0));
        assert_eq!(got.ratio(), 2.0);
        assert_eq!(similarity_heatmap(&asked, 10), vec![vec![1.0]]);
    }
}
