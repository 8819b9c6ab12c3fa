//! The scenario's residency, as the rules that a gateway's configuration would say it in.
//!
//! A scenario lists the regions that may serve a load, and the checkers go by that list alone. The
//! gateways are told of it as rules, in as many forms as rules have: regions by name and by label,
//! and a list that only two rules together come down to. The routing machine applies them as it does
//! in a live gateway (`meridian_routing::residency`), so a search over scenarios searches that too.

use std::collections::BTreeMap;
use std::sync::Arc;

use meridian_routing::residency::{Atlas, Labels, Names, Place, Residence, Rule, Subject, Term};

use crate::scenario::{Load, Region};

/// Rules, and what they speak of.
pub(crate) struct Rules {
    rules: Vec<Arc<Rule>>,
    /// The regions, and their labels by name.
    regions: Vec<Arc<Place>>,
    labels: BTreeMap<String, Labels>,
    /// What loads are called.
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

    /// Two rules that permit a region more each, or one.
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

    /// The rules that name a load's requests that entered in a region.
    pub(crate) fn residence(&self, load: u16, from: usize) -> Residence {
        let subject = Subject {
            tenant: self.tenants.get(usize::from(load)).map(String::as_str),
            labels: &NONE,
            model: "",
            from: &self.regions[from].region,
        };
        Residence::of(&self.rules, &subject)
    }

    /// Whether no load has any.
    pub(crate) fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Where the replicas of a region stand.
    pub(crate) fn place(&self, region: usize) -> Arc<Place> {
        self.regions[region].clone()
    }

    /// What a gateway's configuration knows of these regions.
    pub(crate) fn atlas(&self, known: impl Iterator<Item = usize>) -> Atlas {
        let places = known.map(|region| (*self.regions[region]).clone()).collect();
        Atlas { labels: self.labels.clone(), places }
    }
}
