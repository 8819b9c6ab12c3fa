//! The scenario's residency, as rules in a gateway's configuration.
//!
//! A scenario lists the regions that may serve a load, and the checkers use only that list. The
//! gateways get it as rules, in every form that rules have: regions by name and by label, and a
//! list that results only from two rules together. The routing machine applies them as it does in a
//! live gateway (`meridian_base::residency`), so a search over scenarios searches that too.

use std::collections::BTreeMap;
use std::sync::Arc;

use meridian_base::residency::{Atlas, Labels, Names, Place, Residence, Rule, Subject, Term};

use crate::scenario::{Load, Region};

/// Rules, and the places and tenants they refer to.
pub(crate) struct Rules {
    rules: Vec<Arc<Rule>>,
    /// The regions, and their labels by name.
    regions: Vec<Arc<Place>>,
    labels: BTreeMap<String, Labels>,
    /// The tenant names of loads.
    tenants: Vec<String>,
}

static NONE: Labels = Labels::new();

impl Rules {
    pub(crate) fn new(regions: &[Region], loads: &[Load]) -> Rules {
        let label = |at: usize| Labels::from([("number".to_owned(), at.to_string())]);
        let named = regions.iter().enumerate().map(|(at, region)| (region.name.clone(), label(at)));
        let mut rules = Rules {
            rules: Vec::new(),
            labels: named.collect(),
            regions: regions.iter().map(|region| Arc::new(Place::region(&region.name))).collect(),
            tenants: Vec::new(),
        };
        for (at, load) in loads.iter().enumerate() {
            let tenant = format!("load-{at}");
            if let Some(may) = &load.may_run_in {
                rules.add(&tenant, may);
            }
            rules.tenants.push(tenant);
        }
        rules
    }

    /// Adds two rules that each permit an extra region, or one rule.
    fn add(&mut self, tenant: &str, may: &[usize]) {
        let mut others = (0..self.regions.len()).filter(|region| !may.contains(region));
        let more = others.next().zip(others.next());
        let lists = match more {
            Some((one, two)) => vec![[may, &[one]].concat(), [may, &[two]].concat()],
            None => vec![may.to_vec()],
        };
        for (at, list) in lists.iter().enumerate() {
            let names = Names { tenants: vec![tenant.to_owned()], ..Names::default() };
            let run_in = list.iter().map(|region| self.term(*region)).collect();
            self.rules.push(Arc::new(Rule { name: format!("{tenant}-{at}"), names, run_in }));
        }
    }

    fn term(&self, region: usize) -> Term {
        match region % 2 {
            0 => Term::Region(self.regions[region].region.clone()),
            _ => Term::Label("number".to_owned(), region.to_string()),
        }
    }

    /// The rules for a load's requests that entered in a region.
    pub(crate) fn residence(&self, load: u16, from: usize) -> Residence {
        let subject = Subject {
            tenant: self.tenants.get(usize::from(load)).map(String::as_str),
            labels: &NONE,
            model: "",
            from: &self.regions[from].region,
        };
        Residence::of(&self.rules, &subject)
    }

    /// Whether no load has rules.
    pub(crate) fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// The place of a region's replicas.
    pub(crate) fn place(&self, region: usize) -> Arc<Place> {
        self.regions[region].clone()
    }

    /// The labels and places of these regions in a gateway's configuration.
    pub(crate) fn atlas(&self, known: impl Iterator<Item = usize>) -> Atlas {
        let places = known.map(|region| (*self.regions[region]).clone()).collect();
        Atlas { labels: self.labels.clone(), places }
    }
}
