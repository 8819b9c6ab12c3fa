//! Residency rules: where a request may be served.
//!
//! A rule selects requests (by tenant, by a label of the tenant, by model, by the region they
//! entered in) and lists the regions or labels where those may be served. A request that no rule
//! selects may be served anywhere. A selected request may be served only where the rule permits,
//! or, with several rules, only where all of them permit; everything else is denied. To let a
//! region accept requests but not forward its own, write a rule for the requests that entered
//! there.
//!
//! A place is a region together with the labels of the replica itself. A request brings its rules
//! ([`Residence`]), replicas and peers' digests bring places, and the driver passes in the regions
//! known from the configuration and the registry ([`Atlas`]). The machine compares the two at each
//! decision (`places.rs`), so a changed label takes effect at once, also for held requests.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// Facts about a region, a replica or a tenant, such as `jurisdiction: eu`.
pub type Labels = BTreeMap<String, String>;

/// Most places that one gateway can distinguish at a time. A replica at any further place serves
/// only requests that no rule selects.
pub const MOST_PLACES: usize = 63;
const _: () = assert!(MOST_PLACES < u64::BITS as usize, "sets of places are bits of a u64");

/// One entry of the list of places that a rule permits.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Term {
    /// A region.
    Region(String),
    /// Any place where a label has this value.
    Label(String, String),
}

/// The requests that a rule selects: those that match each kind that is not empty.
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

/// The properties of a request that rules match.
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
    /// Whether a request is selected.
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

/// A replica's location.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The region.
    pub region: String,
    /// Labels of the replica itself, which override the region's.
    pub labels: Labels,
}

impl Place {
    /// A region without labels of a replica's own.
    #[must_use]
    pub fn region(name: &str) -> Place {
        Place { region: String::from(name), labels: Labels::new() }
    }
}

/// The regions and places known from the configuration and the registry, whether connected at the
/// moment or not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Atlas {
    /// Labels of regions, by name.
    pub labels: BTreeMap<String, Labels>,
    /// Places where replicas of the fleet may be: regions of the gateway itself and of its peers,
    /// and those in the registry. A request whose rules permit one of them waits for it; one whose
    /// rules permit none is refused at once.
    pub places: BTreeSet<Place>,
}

/// One rule.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rule {
    /// Its name, in answers and metrics.
    pub name: String,
    /// The requests that it selects.
    pub names: Names,
    /// Where those may be served.
    pub run_in: Vec<Term>,
}

impl Rule {
    /// Whether it permits a place to the requests it selects, given the regions' labels.
    #[must_use]
    pub fn permits(&self, place: &Place, labels: &BTreeMap<String, Labels>) -> bool {
        let of_region = |name| labels.get(&place.region).and_then(|labels| labels.get(name));
        self.run_in.iter().any(|term| match term {
            Term::Region(region) => *region == place.region,
            Term::Label(name, value) => {
                place.labels.get(name).or_else(|| of_region(name)) == Some(value)
            }
        })
    }
}

/// The rules that apply to one request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Residence {
    rules: Vec<Arc<Rule>>,
}

impl Residence {
    /// Those of `rules` that select a request.
    #[must_use]
    pub fn of(rules: &[Arc<Rule>], subject: &Subject<'_>) -> Residence {
        let naming = rules.iter().filter(|rule| rule.names.fit(subject));
        Residence { rules: naming.cloned().collect() }
    }

    /// Adds rules that another gateway applied, except duplicates: the rules of both sides apply.
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

    /// Whether no rule applies: it may be served anywhere.
    #[must_use]
    pub fn is_free(&self) -> bool {
        self.rules.is_empty()
    }

    /// Whether it may be served at a place, given the regions' labels.
    #[must_use]
    pub fn permits(&self, place: &Place, labels: &BTreeMap<String, Labels>) -> bool {
        self.rules.iter().all(|rule| rule.permits(place, labels))
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

    // Every kind that a rule lists has to match, and one entry of each kind is enough.
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
        let no_tenant = Subject { tenant: None, ..subject };
        assert!(!Names { tenants: vec!["acme".into()], ..Names::default() }.fit(&no_tenant));
    }

    // Without a rule nothing is denied. Once a rule applies, everything it does not permit is
    // denied; two rules permit only what both do; a replica's own label overrides its region's.
    #[test]
    fn deny_by_default() {
        let eu_label = Term::Label("jurisdiction".into(), "eu".into());
        let rules = [
            rule("eu-only", "acme", vec![region("eu"), eu_label]),
            rule("near", "acme", vec![region("eu"), region("us")]),
        ];
        let none = Labels::new();
        let place =
            |region, own: &[(&str, &str)]| Place { labels: labels(own), ..Place::region(region) };
        let regions = [("us", "us"), ("ch", "eu")]
            .map(|(region, value)| (region.to_owned(), labels(&[("jurisdiction", value)])));
        let regions = BTreeMap::from(regions);
        let places = [
            place("eu", &[]),
            place("us", &[]),
            place("us", &[("jurisdiction", "eu")]),
            place("ch", &[]),
            place("ch", &[("jurisdiction", "us")]),
        ];
        let mask =
            |residence: &Residence| places.each_ref().map(|p| residence.permits(p, &regions));
        let subject = |tenant| Subject { tenant, labels: &none, model: "m", from: "us" };
        let free = Residence::of(&rules, &subject(Some("other")));
        assert!(free.is_free() && mask(&free) == [true; 5]);
        let mut kept = Residence::of(&rules[..1], &subject(Some("acme")));
        assert_eq!(mask(&kept), [true, false, true, true, false]);
        let both = Residence::of(&rules, &subject(Some("acme")));
        assert_eq!(mask(&both), [true, false, true, false, false]);
        // Rules that another gateway applied also hold, and the same rule is not added twice.
        kept.add([(*rules[0]).clone(), (*rules[1]).clone()]);
        assert_eq!((kept.rules().len(), mask(&kept)), (2, mask(&both)));
    }
}
