//! The hash of the calibrated parameters: engines, workloads, network, the window.
//!
//! Two results with the same hash come from the same world, whatever systems were compared: those
//! are not hashed. Generators are hashed by their programs, so that a change of their code shows as
//! well as a change of a knob; engines by their step-time terms.

use meridian_base::mix;
use meridian_workload::{Generator, ProgramKey};

use super::build;
use super::plan::{Feed, Plan};

/// The hash, in hexadecimal.
///
/// # Errors
/// When an engine can't be set up as a fleet says.
pub fn hash(plan: &Plan) -> anyhow::Result<String> {
    let mut hash = 0;
    let mut add = |text: &str| hash = text.bytes().fold(mix(hash, 1), |h, b| mix(h, b.into()));
    add(&serde_json::to_string(&plan.regions)?);
    add(&serde_json::to_string(&plan.measure)?);
    for fleet in &plan.fleets {
        add(&fleet.name);
        for group in &fleet.groups {
            add(&format!("{:?} {:?}", group.count, build::engine(group)?));
            if let Some(pool) = &group.pool {
                add(&serde_json::to_string(pool)?);
            }
        }
        if !fleet.racks.is_empty() {
            add(&serde_json::to_string(&fleet.racks)?);
        }
        if !fleet.degraded.is_empty() {
            add(&serde_json::to_string(&fleet.degraded)?);
        }
    }
    for (workload, feeds) in &plan.workloads {
        add(&serde_json::to_string(workload)?);
        feeds.iter().for_each(|feed| match feed {
            Feed::Generator(generator) => add(&first_programs(generator.as_ref())),
            Feed::Trace(recorded) => add(&format!("{:016x}", recorded.hash())),
        });
    }
    Ok(format!("{hash:016x}"))
}

fn first_programs(generator: &dyn Generator) -> String {
    let key = |client| ProgramKey { seed: 0, region: client % 3, client, ordinal: 0 };
    let programs: Vec<_> = (0..8).map(|client| generator.program(key(client))).collect();
    format!("{programs:?}")
}

/// The hash for an experiment without a plan, from its inputs as text.
#[must_use]
pub fn of_text(text: &str) -> String {
    format!("{:016x}", text.bytes().fold(mix(0, 1), |h, b| mix(h, b.into())))
}

/// The hash of generators alone, by the programs they make.
#[must_use]
pub fn of_generators<'a>(generators: impl IntoIterator<Item = &'a dyn Generator>) -> String {
    of_text(&generators.into_iter().map(first_programs).collect::<String>())
}
