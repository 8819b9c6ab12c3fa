//! The traffic of a fleet on links at a rate: collectives, hops and KV of all instances, each
//! weighted by its share of the requests.

use std::rc::Rc;

use crate::instance::Rated;
use crate::loads::Loads;
use crate::task::Task;
use crate::transfer::{Transfer, transfer};

/// The traffic.
pub(crate) struct Traffic {
    /// KV of a mean prompt of each prefill instance to each decode instance, with its probability.
    pub(crate) sent: Vec<Vec<(f64, Transfer)>>,
    /// Bytes a second on each link.
    pub(crate) loads: Loads,
}

impl Traffic {
    /// The traffic if the `prefill` instances get these prompts a second each; `None` if some KV
    /// has no path.
    pub(crate) fn new(
        task: &Task<'_>,
        prefill: &[(&Rated, f64)],
        decode: &[Rc<Rated>],
    ) -> Option<Traffic> {
        let total: f64 = decode.iter().map(|to| to.rate).sum();
        let rate: f64 = prefill.iter().map(|(_, rate)| rate).sum();
        let (mut sent, mut loads) = (Vec::new(), Loads::default());
        for to in decode {
            loads.merge(&to.loads, rate * to.rate / total);
        }
        for (from, rate) in prefill {
            loads.merge(&from.loads, *rate);
            let kv = |to: &Rc<Rated>| {
                Some((to.rate / total, transfer(task, &from.instance, &to.instance)?))
            };
            let kv: Vec<_> = decode.iter().map(kv).collect::<Option<_>>()?;
            kv.iter().for_each(|(chance, one)| loads.merge(&one.loads, rate * chance));
            sent.push(kv);
        }
        Some(Traffic { sent, loads })
    }
}
