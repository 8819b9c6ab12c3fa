//! What a fleet puts on links at a rate: collectives, hops and KV of all instances, each by the share
//! of the requests that it gets.

use std::rc::Rc;

use crate::instance::Rated;
use crate::loads::Loads;
use crate::task::Task;
use crate::transfer::{Transfer, transfer};

/// What is sent.
pub(crate) struct Traffic {
    /// KV of a mean prompt of each prefill instance to each decode instance, with the chance that it
    /// goes there.
    pub(crate) sent: Vec<Vec<(f64, Transfer)>>,
    /// Bytes a second on each link.
    pub(crate) loads: Loads,
}

impl Traffic {
    /// Where `prefill` gets these prompts a second each; `None` where some KV has no way.
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
