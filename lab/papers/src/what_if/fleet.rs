//! Fleets: so many replicas, of one kind of GPU or several, whole or in pools, over the regions.

use std::fmt;
use std::str::FromStr;

use meridian_engine::GPUS;
use meridian_protocol::admin::RoleName;
use meridian_protocol::suggest;
use meridian_routing::Role;

use super::question::Question;
use crate::experiment::spec::{self, Group, Pool};

/// Largest fleet, in replicas.
pub(super) const MOST: u32 = 512;

/// Kinds of GPUs with their shares of a fleet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gpus(Vec<(String, u32)>);

/// Sizes of fleets, in replicas, ascending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sizes(pub Vec<u32>);

/// What the replicas of a fleet do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arrangement {
    /// Each serves whole requests.
    Whole,
    /// This share of them, from 0.01 to 0.99, computes prompts; the others write the answers.
    Pools(f64),
}

/// The name of a GPU with a profile.
pub(super) fn known(gpu: &str) -> Result<String, String> {
    let (names, lower) = (GPUS.map(|gpu| gpu.name), gpu.to_ascii_lowercase());
    match names.contains(&&*lower) {
        true => Ok(lower),
        false => Err(format!("`{gpu}` is not a GPU with a profile; {}", suggest(&lower, &names))),
    }
}

impl Gpus {
    /// The kinds.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(gpu, _)| gpu.as_str())
    }

    /// The kinds of a fleet of `count` replicas, in an order in which each beginning is as near to
    /// the shares as it can be. A larger fleet begins with a smaller one.
    pub(super) fn deal(&self, count: u32) -> Vec<usize> {
        let all: u32 = self.0.iter().map(|(_, weight)| weight).sum();
        let mut dealt = vec![0_u32; self.0.len()];
        let lacks = |dealt: &[u32], kind: usize, at: u32| {
            i64::from(self.0[kind].1) * i64::from(at) - i64::from(all) * i64::from(dealt[kind])
        };
        let next = |at: u32| {
            let most =
                (0..dealt.len()).max_by_key(|kind| (lacks(&dealt, *kind, at), usize::MAX - kind));
            let kind = most.expect("there is a kind");
            dealt[kind] += 1;
            kind
        };
        (1..=count).map(next).collect()
    }
}

impl FromStr for Gpus {
    type Err = String;

    /// Parses `h100`, or a mix with shares: `h100=1,l4=3`.
    fn from_str(text: &str) -> Result<Gpus, String> {
        let one = |part: &str| {
            let (gpu, share) = part.split_once('=').unwrap_or((part, "1"));
            let gpu = known(gpu.trim())?;
            let good = share.trim().parse().ok().filter(|n| (1..=1000).contains(n));
            let wrong =
                || format!("{gpu}: `{share}` is not a share; use a whole number, 1 to 1000");
            good.ok_or_else(wrong).map(|share: u32| (gpu, share))
        };
        let all: Vec<(String, u32)> = text.split(',').map(one).collect::<Result<_, _>>()?;
        for (at, (gpu, _)) in all.iter().enumerate() {
            if all[..at].iter().any(|(other, _)| other == gpu) {
                return Err(format!("{gpu} is there twice; give one share"));
            }
        }
        Ok(Gpus(all))
    }
}

impl fmt::Display for Gpus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_slice() {
            [(gpu, _)] => f.write_str(gpu),
            all => {
                let all: Vec<String> = all.iter().map(|(gpu, n)| format!("{gpu}={n}")).collect();
                f.write_str(&all.join(","))
            }
        }
    }
}

impl FromStr for Sizes {
    type Err = String;

    /// Parses `4..8` (both ends), `6`, or a list: `2,4,8..10`.
    fn from_str(text: &str) -> Result<Sizes, String> {
        let wrong = |part: &str| {
            format!("`{part}` is not a number of replicas; use 1 to {MOST}, as in 4..8 or 2,4,8")
        };
        let number = |part: &str| {
            let good = part.trim().parse().ok().filter(|n| (1..=MOST).contains(n));
            good.ok_or_else(|| wrong(part))
        };
        let mut all = Vec::new();
        for part in text.split(',') {
            let (from, to) = part.split_once("..").unwrap_or((part, part));
            let (from, to) = (number(from)?, number(to.trim_start_matches('='))?);
            if from > to {
                return Err(format!("`{part}` is empty; write the smaller number first"));
            }
            all.extend(from..=to);
        }
        all.sort_unstable();
        all.dedup();
        Ok(Sizes(all))
    }
}

impl fmt::Display for Sizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: Vec<String> = self.0.iter().map(u32::to_string).collect();
        match self.0.as_slice() {
            [first, .., last] if (last - first) as usize + 1 == all.len() => {
                write!(f, "{first}..{last}")
            }
            _ => f.write_str(&all.join(",")),
        }
    }
}

/// The fleet of `replicas` in this arrangement.
///
/// Regions get their shares, and each at least one replica. GPUs are dealt over the regions in
/// order, and prefill pools take the first replicas of each region, by the order of the kinds.
pub(crate) fn fleet(question: &Question, replicas: u32, arrangement: Arrangement) -> spec::Fleet {
    let regions = question.places.counts(replicas);
    let mut dealt = question.gpus.deal(replicas).into_iter();
    let kinds = question.gpus.0.len();
    let mut counts = vec![vec![0_u32; regions.len()]; kinds * 3];
    for (region, count) in regions.iter().enumerate() {
        let mut here: Vec<usize> = dealt.by_ref().take(*count as usize).collect();
        here.sort_unstable();
        let prefill = arrangement.prefill(*count);
        for (at, kind) in here.into_iter().enumerate() {
            let role = match prefill {
                None => 0,
                Some(prefill) if at < prefill as usize => 1,
                Some(_) => 2,
            };
            counts[kind * 3 + role][region] += 1;
        }
    }
    let group = |(at, count): (usize, Vec<u32>)| {
        let pool = |role| Pool { role: RoleName(role), gbps: question.kv_gbps, rack: None };
        Group {
            gpu: question.gpus.0[at / 3].0.clone(),
            model: question.model.clone(),
            tp: question.tp,
            count,
            kv_tokens: None,
            max_num_batched_tokens: None,
            max_num_seqs: None,
            jitter: 0.0,
            speed: None,
            llamacpp_context: None,
            pool: [None, Some(pool(Role::Prefill)), Some(pool(Role::Decode))][at % 3],
        }
    };
    let some = |count: &Vec<u32>| count.iter().any(|n| *n > 0);
    let groups = counts.into_iter().enumerate().filter(|(_, count)| some(count)).map(group);
    let name = format!("{replicas} replicas");
    spec::Fleet { name, groups: groups.collect(), degraded: Vec::new(), racks: Vec::new() }
}

/// The GPUs of a fleet, by kind and role: `2 h100 + 1 l4`, `1 h100 prefill + 3 h100 decode`.
pub(super) fn shown(fleet: &spec::Fleet) -> String {
    let one = |group: &Group| {
        let count = group.count.iter().sum::<u32>() * group.tp;
        let role = match group.pool.map(|pool| pool.role.0) {
            Some(Role::Prefill) => " prefill",
            Some(Role::Decode) => " decode",
            _ => "",
        };
        format!("{count} {}{role}", group.gpu)
    };
    fleet.groups.iter().map(one).collect::<Vec<_>>().join(" + ")
}

/// USD an hour for all GPUs of a fleet; `None` if a price is unknown.
pub(crate) fn usd_per_hour(question: &Question, fleet: &spec::Fleet) -> Option<f64> {
    let one = |group: &Group| {
        let gpus = f64::from(group.count.iter().sum::<u32>() * group.tp);
        Some(gpus * question.prices.of(&group.gpu)?)
    };
    fleet.groups.iter().map(one).sum()
}

impl Arrangement {
    /// Prefill replicas among `count` of a region; `None` if all of them are whole.
    fn prefill(self, count: u32) -> Option<u32> {
        match self {
            Arrangement::Pools(share) if count >= 2 => {
                let wanted = libm::round(f64::from(count) * share) as u32;
                Some(wanted.clamp(1, count - 1))
            }
            _ => None,
        }
    }
}

impl fmt::Display for Arrangement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Arrangement::Whole => f.write_str("whole"),
            Arrangement::Pools(share) => write!(f, "pools {share}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Kinds are dealt by their shares, and a fleet begins with each smaller one.
    #[test]
    fn kinds_are_dealt_by_share() {
        let gpus: Gpus = "h100=1,l4=3".parse().unwrap();
        assert_eq!(gpus.deal(8), [1, 0, 1, 1, 1, 0, 1, 1]);
        assert_eq!(gpus.deal(3), gpus.deal(8)[..3]);
        let one: Gpus = "h100".parse().unwrap();
        assert_eq!((one.deal(3), one.to_string()), (vec![0, 0, 0], "h100".to_owned()));
        assert_eq!(gpus.to_string(), "h100=1,l4=3");
    }

    // Ranges include both ends; what is shown is read back.
    #[test]
    fn sizes_are_parsed() {
        for (text, all, shown) in [
            ("4..8", vec![4, 5, 6, 7, 8], "4..8"),
            ("8,2,4", vec![2, 4, 8], "2,4,8"),
            ("1..2,6", vec![1, 2, 6], "1,2,6"),
            ("3", vec![3], "3"),
        ] {
            let sizes: Sizes = text.parse().unwrap();
            assert_eq!((sizes.0.clone(), sizes.to_string().as_str()), (all, shown));
            assert_eq!(sizes.to_string().parse::<Sizes>(), Ok(sizes));
        }
    }

    // Every mistake is named with its value and the remedy.
    #[test]
    fn mistakes_are_reported() {
        for (text, part) in [
            ("0", "use 1 to 512"),
            ("8..4", "the smaller number first"),
            ("4..", "use 1 to 512"),
            ("many", "`many` is not a number"),
            ("513", "use 1 to 512"),
        ] {
            assert!(text.parse::<Sizes>().is_err_and(|e| e.contains(part)), "{text}: {part}");
        }
        for (text, part) in [
            ("abacus", "use one of l4"),
            ("H10", "did you mean `h100`?"),
            ("h100=0", "use a whole number"),
            ("h100,h100=2", "is there twice"),
        ] {
            assert!(text.parse::<Gpus>().is_err_and(|e| e.contains(part)), "{text}: {part}");
        }
    }

    // A prefill pool has at least one replica and leaves at least one.
    #[test]
    fn pools_have_both_parts() {
        let prefill = |share, count| Arrangement::Pools(share).prefill(count);
        assert_eq!(
            [prefill(0.25, 8), prefill(0.01, 4), prefill(0.99, 4)],
            [Some(2), Some(1), Some(3)]
        );
        assert_eq!((prefill(0.5, 1), Arrangement::Whole.prefill(8)), (None, None));
    }
}
