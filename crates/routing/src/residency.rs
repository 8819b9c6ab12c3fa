//! Residency: where a request may be served, by rules.
//!
//! A rule names requests (by tenant, by a label of the tenant, by model, by the region that they
//! entered in) and says where those may be served: in regions, or wherever a label stands. Nothing
//! keeps a request that no rule names. Once a rule names it, it may be served only where that rule
//! permits, and where several do, only where all of them permit; what a rule does not speak of is
//! denied. That a region may take in and not send out is a rule about what entered there.
//!
//! For the machine, rules become two masks of a request: the peers that it may be sent on to, and
//! the places whose replicas may serve it ([`Request`](crate::Request)). A place is a region with
//! the labels of the replica itself. The gateway and the simulator make the masks here.
//!
//! What this does not do is know who is where: the driver says it, and says it anew at each
//! request, so that a label that changes counts at once.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// Facts about a region, a replica or a tenant, such as `jurisdiction: eu`.
pub type Labels = BTreeMap<String, String>;

/// The place of whatever stands where no number is left: only what no rule names is served there.
pub const BEYOND: u8 = 63;

/// What a rule permits.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Term {
    /// A region.
    Region(String),
    /// Wherever a label has this value.
    Label(String, String),
}

/// Which requests a rule names: those that fit each kind that is not empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    /// Of one of these tenants.
    pub tenants: Vec<String>,
    /// Of a tenant with all of these labels.
    pub labels: Labels,
    /// For one of these models.
    pub models: Vec<String>,
    /// That entered the fleet in one of these regions.
    pub from: Vec<String>,
}

/// What rules know a request by.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// Its tenant.
    pub tenant: Option<&'a str>,
    /// The tenant's labels.
    pub labels: &'a Labels,
    /// Its model.
    pub model: &'a str,
    /// The region that it entered in.
    pub from: &'a str,
}

impl Names {
    /// Whether a request is named.
    #[must_use]
    pub fn fit(&self, subject: &Subject<'_>) -> bool {
        let one_of = |list: &[String], value: Option<&str>| {
            list.is_empty() || value.is_some_and(|value| list.iter().any(|one| one == value))
        };
        one_of(&self.tenants, subject.tenant)
            && one_of(&self.models, Some(subject.model))
            && one_of(&self.from, Some(subject.from))
            && self.labels.iter().all(|(name, value)| subject.labels.get(name) == Some(value))
    }
}

/// Where something stands.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// The region.
    pub region: &'a str,
    /// The region's labels.
    pub labels: &'a Labels,
    /// Labels of the replica itself, which go before the region's.
    pub own: &'a Labels,
}

/// One rule.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rule {
    /// What it is called, in answers and metrics.
    pub name: String,
    /// The requests that it names.
    pub names: Names,
    /// Where those may be served.
    pub run_in: Vec<Term>,
}

impl Rule {
    /// Whether it permits a place to what it names.
    #[must_use]
    pub fn permits(&self, place: &Place<'_>) -> bool {
        self.run_in.iter().any(|term| match term {
            Term::Region(region) => region == place.region,
            Term::Label(name, value) => {
                place.own.get(name).or_else(|| place.labels.get(name)) == Some(value)
            }
        })
    }
}

/// The rules that name one request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Residence {
    rules: Vec<Arc<Rule>>,
}

impl Residence {
    /// Those of `rules` that name a request.
    #[must_use]
    pub fn of(rules: &[Arc<Rule>], subject: &Subject<'_>) -> Residence {
        let naming = rules.iter().filter(|rule| rule.names.fit(subject));
        Residence { rules: naming.cloned().collect() }
    }

    /// Adds rules that somebody else applied, as far as they are not the same: both sides' hold.
    pub fn add(&mut self, rules: impl IntoIterator<Item = Rule>) {
        for rule in rules {
            let same = |known: &Arc<Rule>| known.name == rule.name && known.run_in == rule.run_in;
            if !self.rules.iter().any(same) {
                self.rules.push(Arc::new(rule));
            }
        }
    }

    /// The rules.
    #[must_use]
    pub fn rules(&self) -> &[Arc<Rule>] {
        &self.rules
    }

    /// Whether no rule names it: it may be served anywhere.
    #[must_use]
    pub fn is_free(&self) -> bool {
        self.rules.is_empty()
    }

    /// Whether it may be served there.
    #[must_use]
    pub fn permits(&self, place: &Place<'_>) -> bool {
        self.rules.iter().all(|rule| rule.permits(place))
    }

    /// The mask of numbered places: where it may be served.
    #[must_use]
    pub fn mask<'a>(&self, places: impl IntoIterator<Item = (u8, Place<'a>)>) -> u64 {
        if self.is_free() {
            return u64::MAX;
        }
        let may = places.into_iter().filter(|(at, place)| *at < BEYOND && self.permits(place));
        may.fold(0, |mask, (at, _)| mask | 1 << at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::borrow::ToOwned;
    use alloc::vec;

    fn labels(pairs: &[(&str, &str)]) -> Labels {
        pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
    }

    fn rule(name: &str, tenant: &str, run_in: Vec<Term>) -> Arc<Rule> {
        let names = Names { tenants: vec![tenant.to_owned()], ..Names::default() };
        Arc::new(Rule { name: name.to_owned(), names, run_in })
    }

    fn region(name: &str) -> Term {
        Term::Region(name.to_owned())
    }

    // Every kind that a rule names has to fit, and one of each kind is enough.
    #[test]
    fn names_fit() {
        let personal = labels(&[("data", "personal"), ("tier", "gold")]);
        let subject = Subject { tenant: Some("acme"), labels: &personal, model: "m", from: "eu" };
        let of = |change: &dyn Fn(&mut Names)| {
            let mut names = Names { tenants: vec!["x".into(), "acme".into()], ..Names::default() };
            change(&mut names);
            names.fit(&subject)
        };
        assert!(of(&|_| {}));
        assert!(of(&|n| n.labels = labels(&[("data", "personal")])));
        assert!(of(&|n| n.from = vec!["us".into(), "eu".into()]));
        assert!(!of(&|n| n.labels = labels(&[("data", "public")])));
        assert!(!of(&|n| n.models = vec!["other".into()]));
        assert!(!of(&|n| n.from = vec!["us".into()]));
        assert!(!of(&|n| n.tenants = vec!["x".into()]));
        let nobody = Subject { tenant: None, ..subject };
        assert!(!Names { tenants: vec!["acme".into()], ..Names::default() }.fit(&nobody));
    }

    // Nothing named, nothing denied; once named, what is not permitted is denied; two rules permit
    // only what both do; a replica's own label goes before its region's.
    #[test]
    fn deny_by_default() {
        let eu_label = Term::Label("jurisdiction".into(), "eu".into());
        let rules = [
            rule("eu-only", "acme", vec![region("eu"), eu_label]),
            rule("near", "acme", vec![region("eu"), region("us")]),
        ];
        let none = Labels::new();
        let eu = labels(&[("jurisdiction", "eu")]);
        let us = labels(&[("jurisdiction", "us")]);
        let place = |region, labels, own| Place { region, labels, own };
        let places = [
            (0, place("eu", &none, &none)),
            (1, place("us", &us, &none)),
            (2, place("us", &us, &eu)),
            (3, place("ch", &eu, &none)),
            (BEYOND, place("eu", &none, &none)),
        ];
        let subject = |tenant| Subject { tenant, labels: &none, model: "m", from: "us" };
        let free = Residence::of(&rules, &subject(Some("other")));
        assert!(free.is_free() && free.mask(places) == u64::MAX);
        let mut kept = Residence::of(&rules[..1], &subject(Some("acme")));
        assert_eq!(kept.mask(places), 0b1101);
        assert_eq!(Residence::of(&rules, &subject(Some("acme"))).mask(places), 0b0101);
        // What another gateway applied holds too, and the same rule is not added twice.
        kept.add([(*rules[0]).clone(), (*rules[1]).clone()]);
        assert_eq!((kept.rules().len(), kept.mask(places)), (2, 0b0101));
    }
}
