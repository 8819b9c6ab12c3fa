//! Residency: which regions may serve a request, as in a gateway's `residency.rules`.

use anyhow::{Context, ensure};
use serde::Deserialize;

use super::places::Region;

/// Where requests may be served.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Rule {
    name: String,
    /// Regions in which they entered; any if empty.
    #[serde(default)]
    from: Vec<String>,
    /// Hashes of tenants, as in the journal; any if empty.
    #[serde(default)]
    tenants: Vec<String>,
    /// Models asked for; any if empty.
    #[serde(default)]
    models: Vec<String>,
    /// Regions that may serve them.
    run_in: Vec<String>,
}

/// A rule with its names resolved.
#[derive(Clone, Debug)]
struct Resolved {
    name: String,
    from: Vec<usize>,
    tenants: Vec<u64>,
    models: Vec<String>,
    run_in: Vec<usize>,
}

/// The rules of a question. A request matches any number of them.
#[derive(Clone, Debug, Default)]
pub(super) struct Rules(Vec<Resolved>);

impl Rules {
    /// Finds the regions that the rules name.
    ///
    /// # Errors
    /// A region that is not there, a tenant that is not a hash, and a rule without any condition or
    /// region.
    pub(super) fn resolve(rules: &[Rule], regions: &[Region]) -> anyhow::Result<Rules> {
        let one = |(at, rule): (usize, &Rule)| rule.resolve(at, regions);
        rules.iter().enumerate().map(one).collect::<Result<_, _>>().map(Rules)
    }

    /// The indices of the rules that a request matches.
    pub(super) fn matching(&self, region: usize, tenant: u64, model: Option<&str>) -> Vec<usize> {
        let matches = |rule: &Resolved| {
            let names = |asked: &str| rule.models.iter().any(|model| model == asked);
            (rule.from.is_empty() || rule.from.contains(&region))
                && (rule.tenants.is_empty() || rule.tenants.contains(&tenant))
                && (rule.models.is_empty() || model.is_some_and(names))
        };
        (0..self.0.len()).filter(|at| matches(&self.0[*at])).collect()
    }

    /// The regions that every rule in `matching` permits, of `regions`; `None` for all, without a
    /// rule.
    pub(super) fn permitted(&self, matching: &[usize], regions: usize) -> Option<Vec<usize>> {
        let permits =
            |region: &usize| matching.iter().all(|at| self.0[*at].run_in.contains(region));
        (!matching.is_empty()).then(|| (0..regions).filter(permits).collect())
    }

    /// The names of some rules, in words.
    pub(super) fn names(&self, matching: &[usize]) -> String {
        matching.iter().map(|at| self.0[*at].name.as_str()).collect::<Vec<_>>().join(" and ")
    }

    /// Those of some rules that do not permit `region`.
    pub(super) fn without(&self, matching: &[usize], region: usize) -> Vec<usize> {
        let forbids = |at: &&usize| !self.0[**at].run_in.contains(&region);
        matching.iter().filter(forbids).copied().collect()
    }

    /// A note for each rule that no request matches.
    pub(super) fn idle(&self, matched: impl Fn(usize) -> bool) -> Vec<String> {
        let idle = (0..self.0.len()).filter(|at| !matched(*at));
        let note = |at: usize| {
            let Resolved { name, models, .. } = &self.0[at];
            let cause = match models.is_empty() {
                true => "",
                false => "; `models` are those that the requests of a journal ask for",
            };
            format!("The residency rule {name} matches no request, so it changes nothing{cause}.")
        };
        idle.map(note).collect()
    }
}

impl Rule {
    fn resolve(&self, at: usize, regions: &[Region]) -> anyhow::Result<Resolved> {
        let field = format!("residency[{at}]");
        let find = |key: &str, names: &[String]| -> anyhow::Result<Vec<usize>> {
            let one = |name: &String| {
                let found = regions.iter().position(|region| region.name == *name);
                found.with_context(|| {
                    let known: Vec<&str> =
                        regions.iter().map(|region| region.name.as_str()).collect();
                    format!("{field}.{key}: `{name}` is not a region; use {}", known.join(", "))
                })
            };
            names.iter().map(one).collect()
        };
        ensure!(!self.name.is_empty(), "{field}.name: is empty; give the rule a name");
        let matches_none =
            self.from.is_empty() && self.tenants.is_empty() && self.models.is_empty();
        ensure!(!matches_none, "{field}: matches no request; add tenants, models or from");
        ensure!(
            !self.run_in.is_empty(),
            "{field}.run_in: is empty; name the regions that may serve"
        );
        let tenant = |text: &String| {
            let hash = u64::from_str_radix(text, 16).ok().filter(|_| text.len() <= 16);
            hash.with_context(|| {
                format!(
                    "{field}.tenants: `{text}` is not a hash; use the 16 hexadecimal digits of the \
                     journal"
                )
            })
        };
        Ok(Resolved {
            name: self.name.clone(),
            from: find("from", &self.from)?,
            tenants: self.tenants.iter().map(tenant).collect::<Result<_, _>>()?,
            models: self.models.clone(),
            run_in: find("run_in", &self.run_in)?,
        })
    }
}
