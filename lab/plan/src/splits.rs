//! Possible splits of an instance over GPUs: tensor, pipeline and expert parallelism.

use crate::instance::Parallel;
use crate::task::Task;

/// Most GPUs of an instance.
pub(crate) const MOST_OF_INSTANCE: u32 = 32;

/// Every split that the model and the number of GPUs allow.
pub(crate) fn parallels(task: &Task<'_>, gpus: u32) -> Vec<Parallel> {
    let model = &task.subject.shape;
    let mut all = Vec::new();
    for tp in [1, 2, 4, 8, 16] {
        for pp in [1, 2, 3, 4, 6, 8] {
            let one = Parallel { tp, pp, ep: false };
            let divides = model.heads.is_multiple_of(tp) && pp <= model.layers;
            if divides && one.gpus() <= gpus.min(MOST_OF_INSTANCE) {
                all.push(one);
            }
        }
        let shared = model.experts.is_some_and(|experts| experts.count.is_multiple_of(tp));
        if shared && tp > 1 && tp <= gpus {
            all.push(Parallel { tp, pp: 1, ep: true });
        }
    }
    all
}
