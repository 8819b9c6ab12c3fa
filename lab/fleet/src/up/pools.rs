//! A region whose replicas have roles: some compute prompts, the others write the answers.

use std::fmt;
use std::str::FromStr;

use meridian_protocol::admin::Role;

use super::Options;

/// The pools of a region.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pools {
    /// The region.
    pub region: String,
    /// Replicas that compute prompts.
    pub prefill: u32,
    /// Replicas that answer.
    pub decode: u32,
}

impl Options {
    /// The roles of a region's replicas, in their order.
    pub(super) fn roles(&self, region: usize) -> Vec<Role> {
        let name = &self.regions[region];
        match self.pools.as_ref().filter(|pools| pools.region == *name) {
            None => vec![Role::Both; self.replicas as usize],
            Some(Pools { prefill, decode, .. }) => {
                let each = |role, count: u32| std::iter::repeat_n(role, count as usize);
                each(Role::Prefill, *prefill).chain(each(Role::Decode, *decode)).collect()
            }
        }
    }

    /// The number of a region's replicas.
    #[must_use]
    pub fn replicas_of(&self, region: usize) -> u32 {
        self.roles(region).len() as u32
    }

    /// The name of a region's replica, by its number.
    pub(super) fn replica_name(&self, region: usize, n: usize) -> String {
        match self.regions.len() {
            1 => format!("engine-{n}"),
            _ => format!("{}-engine-{n}", self.regions[region]),
        }
    }
}

impl fmt::Display for Pools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Pools { region, prefill, decode } = self;
        write!(f, "{region}={prefill}:{decode}")
    }
}

impl FromStr for Pools {
    type Err = String;

    fn from_str(text: &str) -> Result<Pools, String> {
        let parts = text.split_once('=').and_then(|(region, counts)| {
            let (prefill, decode) = counts.split_once(':')?;
            Some((region, prefill.parse().ok()?, decode.parse().ok()?))
        });
        match parts {
            Some((region, prefill @ 1..=32, decode @ 1..=32)) => {
                Ok(Pools { region: region.to_owned(), prefill, decode })
            }
            _ => Err(format!(
                "`{text}` names no pools; write REGION=PREFILL:DECODE with 1 to 32 replicas each, \
                 as in asia=1:3"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Pools read back as written, and other texts are refused with the form.
    #[test]
    fn pools_are_named_by_region_and_counts() {
        let pools: Pools = "asia=1:3".parse().unwrap();
        assert_eq!((pools.prefill, pools.decode), (1, 3));
        assert_eq!(pools.to_string(), "asia=1:3");
        for wrong in ["asia", "asia=1", "asia=0:3", "asia=1:x", "asia=1:33"] {
            let error = wrong.parse::<Pools>().unwrap_err();
            assert!(error.contains(wrong) && error.contains("asia=1:3"), "{error}");
        }
    }

    // Only the region that is named has roles.
    #[test]
    fn one_region_has_roles() {
        let options = Options {
            regions: vec!["us".into(), "asia".into()],
            replicas: 2,
            pools: Some("asia=1:2".parse().unwrap()),
            ..Options::default()
        };
        assert_eq!(options.roles(0), [Role::Both; 2]);
        assert_eq!((options.replicas_of(0), options.replicas_of(1)), (2, 3));
        assert_eq!(options.roles(1), [Role::Prefill, Role::Decode, Role::Decode]);
    }
}
