//! The scenario's residency, as the rules that a gateway's configuration would say it in.
//!
//! A scenario lists the regions that may serve a load, and the checkers go by that list alone. The
//! gateways are told of it as rules, in as many forms as rules have: regions by name and by label,
//! and a list that only two rules together come down to. Their masks are made by the code that a
//! live gateway uses (`meridian_routing::residency`), so a search over scenarios searches that too.

use std::sync::Arc;

use meridian_routing::residency::{Labels, Names, Place, Residence, Rule, Subject, Term};

use crate::scenario::{Load, Region};

/// Rules, and what they speak of.
pub(crate) struct Rules {
    rules: Vec<Arc<Rule>>,
    /// Names and labels of the regions.
    regions: Vec<(String, Labels)>,
    /// What loads are called.
    tenants: Vec<String>,
}

static NONE: Labels = Labels::new();

impl Rules {
    pub(crate) fn new(regions: &[Region], loads: &[Load]) -> Rules {
        let label = |at: usize| Labels::from([("number".to_owned(), at.to_string())]);
        let named = regions.iter().enumerate().map(|(at, region)| (region.name.clone(), label(at)));
        let mut rules = Rules { rules: Vec::new(), regions: named.collect(), tenants: Vec::new() };
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
            0 => Term::Region(self.regions[region].0.clone()),
            _ => Term::Label("number".to_owned(), region.to_string()),
        }
    }

    /// The rules that name a load's requests that entered in a region.
    pub(crate) fn residence(&self, load: u16, from: usize) -> Residence {
        let subject = Subject {
            tenant: self.tenants.get(usize::from(load)).map(String::as_str),
            labels: &NONE,
            model: "",
            from: &self.regions[from].0,
        };
        Residence::of(&self.rules, &subject)
    }

    fn place(&self, region: usize) -> Place<'_> {
        let (name, labels) = &self.regions[region];
        Place { region: name, labels, own: &NONE }
    }

    /// The mask of places, which are regions here.
    pub(crate) fn places(&self, residence: &Residence) -> u64 {
        residence.mask((0..self.regions.len()).map(|at| ((at % 64) as u8, self.place(at))))
    }

    /// Whether a region is permitted.
    pub(crate) fn permits(&self, residence: &Residence, region: usize) -> bool {
        residence.permits(&self.place(region))
    }
}
