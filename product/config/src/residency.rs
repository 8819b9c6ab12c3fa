//! Residency rules as an operator writes them.

use std::collections::BTreeMap;
use std::sync::Arc;

use meridian_base::residency::{Labels, Names, Rule, Term};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Tenant;
use super::twice::{exact, twice};
use meridian_protocol::peer::{MOST_RULES, MOST_TERMS, label, term};

/// Longest name of a label, and longest value.
const MOST_LABEL: usize = 63;

/// Where requests may be served.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Residency {
    /// Labels by region, which rules refer to. If a region is listed here, its labels in the
    /// registry are ignored.
    pub labels: BTreeMap<String, Labels>,
    /// The rules.
    pub rules: Vec<ResidencyRule>,
}

/// One rule: the requests it names may be served in these places and nowhere else.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ResidencyRule {
    /// Its name in answers, metrics and errors.
    pub name: String,
    /// Matches requests of one of these tenants,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tenants: Vec<String>,
    /// of a tenant with all of these labels,
    #[serde(default, skip_serializing_if = "Labels::is_empty")]
    pub labels: Labels,
    /// for one of these models,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub models: Vec<String>,
    /// that entered at a gateway in one of these regions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub from: Vec<String>,
    /// Where they may be served: regions, and labels as `name=value`.
    pub run_in: Vec<String>,
}

impl Residency {
    /// Whether there are neither labels nor rules.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Residency::default()
    }

    /// The rules as they are applied.
    ///
    /// # Errors
    /// If a place is invalid; never for a configuration that was read.
    pub fn rules(&self) -> Result<Vec<Arc<Rule>>, String> {
        let one = |rule: &ResidencyRule| {
            let run_in: Result<Vec<Term>, String> = rule.run_in.iter().map(|t| term(t)).collect();
            let names = Names {
                tenants: rule.tenants.clone(),
                labels: rule.labels.clone(),
                models: rule.models.clone(),
                from: rule.from.clone(),
            };
            Ok(Arc::new(Rule { name: rule.name.clone(), names, run_in: run_in? }))
        };
        self.rules.iter().map(one).collect()
    }

    pub(super) fn check(&self, tenants: &[Tenant], check: &mut impl FnMut(bool, String)) {
        for (region, labels) in &self.labels {
            if let Err(error) = label("region", region) {
                check(false, format!("residency.labels: {error}"));
            }
            check_labels(&format!("residency.labels.{region}"), labels, check);
        }
        check(
            self.rules.len() <= MOST_RULES,
            format!("residency.rules: {} are listed; use at most {MOST_RULES}", self.rules.len()),
        );
        for (i, rule) in self.rules.iter().enumerate() {
            let at = format!("residency.rules[{i}]");
            if let Err(error) = label("name", &rule.name) {
                check(false, format!("{at}.{error}"));
            }
            if let Some(j) = self.rules[..i].iter().position(|known| known.name == rule.name) {
                check(
                    false,
                    format!(
                        "{at}.name: `{}` is the name of residency.rules[{j}] already; rename one",
                        rule.name
                    ),
                );
            }
            rule.check(&at, tenants, check);
        }
    }
}

impl ResidencyRule {
    fn check(&self, at: &str, tenants: &[Tenant], check: &mut impl FnMut(bool, String)) {
        let names = !(self.tenants.is_empty()
            && self.labels.is_empty()
            && self.models.is_empty()
            && self.from.is_empty());
        check(names, format!("{at}: matches no request; add tenants, labels, models or from"));
        check(
            (1..=MOST_TERMS).contains(&self.run_in.len()),
            format!(
                "{at}.run_in: has {} places; list 1 to {MOST_TERMS} regions or labels",
                self.run_in.len()
            ),
        );
        let lists = [
            ("tenants", &self.tenants),
            ("models", &self.models),
            ("from", &self.from),
            ("run_in", &self.run_in),
        ];
        for (field, list) in lists {
            twice(&format!("{at}.{field}"), list, check);
        }
        for (n, model) in self.models.iter().enumerate() {
            exact(&format!("{at}.models[{n}]"), model, check);
            check(
                !model.trim().is_empty(),
                format!("{at}.models[{n}]: is empty and matches no request; name a model"),
            );
        }
        for place in &self.run_in {
            if let Err(problem) = term(place) {
                check(false, format!("{at}.run_in: {problem}"));
            }
        }
        for tenant in &self.tenants {
            // A rule with a misspelt tenant would match no request.
            let is_known = tenants.iter().any(|known| known.name == *tenant);
            check(
                is_known,
                format!(
                    "{at}.tenants: `{tenant}` is not one of `tenants`; add it there, without keys if its clients use other gateways"
                ),
            );
        }
        let labelled = |(name, value): (&String, &String)| {
            tenants.iter().any(|tenant| tenant.labels.get(name) == Some(value))
        };
        for pair in &self.labels {
            check(
                labelled(pair),
                format!(
                    "{at}.labels: no tenant has the label {}: {}; add it to one in `tenants`",
                    pair.0, pair.1
                ),
            );
        }
        for region in &self.from {
            if let Err(error) = label("from", region) {
                check(false, format!("{at}.{error}"));
            }
        }
    }
}

/// Labels are sent between gateways in a header.
pub(super) fn check_labels(at: &str, labels: &Labels, check: &mut impl FnMut(bool, String)) {
    for (name, value) in labels {
        if let Err(problem) = term(&format!("{name}={value}")) {
            check(false, format!("{at}: {problem}"));
        }
        let fits = name.len() <= MOST_LABEL && value.len() <= MOST_LABEL;
        let shown: String = name.chars().take(MOST_LABEL).collect();
        check(fits, format!("{at}.{shown}: is longer than {MOST_LABEL} bytes; use a shorter text"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ConfigError, Gateway};

    const TENANTS: &str = concat!(
        "version: 1\ntenants: [{name: acme, labels: {data: personal}, keys: ['sha256:0a0a0a0a0a0a0a0a",
        "0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a']}]\n"
    );

    fn read(rules: &str) -> Result<Gateway, ConfigError> {
        Gateway::read(&format!("{TENANTS}residency:\n{rules}"))
    }

    // A rule becomes its form for the routing machine, with separate regions and labels.
    #[test]
    fn rules_are_read() {
        let config = read(
            "  labels: {ch: {jurisdiction: eu}}\n  rules:\n    - {name: eu-only, tenants: [acme], run_in: [eu, jurisdiction=eu]}\n",
        )
        .unwrap();
        let rules = config.residency.rules().unwrap();
        assert_eq!(rules[0].names.tenants, ["acme"]);
        let label = Term::Label("jurisdiction".into(), "eu".into());
        assert_eq!(rules[0].run_in, [Term::Region("eu".into()), label]);
        assert_eq!(Gateway::read(&config.print().unwrap()).unwrap(), config);
    }

    // A rule that matches nothing, or could not be applied, is reported with its field and the
    // remedy.
    #[test]
    fn problems_are_reported() {
        let error = read(concat!(
            "  labels: {EU: {}}\n  rules:\n",
            "    - {name: a, run_in: [eu]}\n",
            "    - {name: a, tenants: [amce], run_in: []}\n",
            "    - {name: 'B b', labels: {data: secret}, from: [EU], run_in: ['e u', '=x']}\n",
        ))
        .unwrap_err()
        .to_string();
        for part in [
            "residency.labels: region: `EU`",
            "rules[0]: matches no request",
            "rules[1].name: `a` is the name of residency.rules[0]",
            "rules[1].tenants: `amce` is not one of `tenants`",
            "rules[1].run_in: has 0 places",
            "rules[2].name: `B b`",
            "rules[2].labels: no tenant has the label data: secret",
            "rules[2].from: `EU`",
            "rules[2].run_in: `e u` is not a place",
            "rules[2].run_in: `=x` is not a place",
        ] {
            assert!(error.contains(part), "{part}: {error}");
        }
    }
}
