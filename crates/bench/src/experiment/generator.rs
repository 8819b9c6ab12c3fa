//! Generators by name, with their knobs: a stand-in for the registry of `workload`.

use std::sync::Arc;

use meridian_wire::config::{Policy, Scalar};
use meridian_workload::{Chat, Generator, Sessions, Tree};

const NAMES: [&str; 5] = ["arena", "wildchat", "tree2", "tree4", "sessions"];

/// Makes the generator that `named` names; it is written as a policy is.
///
/// # Errors
/// An unknown name or knob, with the remedy.
pub fn build(named: &Policy) -> Result<Arc<dyn Generator>, String> {
    let mut knobs = named.params.clone();
    let mut number = |name: &str, default: u32| match knobs.remove(name) {
        Some(Scalar::Number(n)) => n as u32,
        _ => default,
    };
    let made: Arc<dyn Generator> = match named.name.as_str() {
        "arena" | "wildchat" => Arc::new(Chat::default()),
        "tree2" => Arc::new(Tree { branch: number("branch", 2), ..Tree::default() }),
        "tree4" => Arc::new(Tree { branch: number("branch", 4), ..Tree::default() }),
        "sessions" => {
            let d = Sessions::default();
            Arc::new(Sessions { turns: number("turns", d.turns), ..d })
        }
        other => {
            let names = NAMES.join(", ");
            return Err(format!("generator: `{other}` is unknown; use one of {names}"));
        }
    };
    match knobs.keys().next() {
        None => Ok(made),
        Some(knob) => Err(format!("generator.{knob}: {} has no such knob; remove it", named.name)),
    }
}
