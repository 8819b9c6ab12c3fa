//! Generators of `workload` by name, with their knobs, as in an experiment's file.

use std::sync::Arc;

use meridian_protocol::policy::{Policy, Scalar};
use meridian_workload::{GENERATORS, Generator, find_generator};

/// Makes the generator that `named` names; it is written as a policy is.
///
/// # Errors
/// An unknown name, and every knob that it lacks or that takes another value, with the remedy.
pub fn build(named: &Policy) -> Result<Arc<dyn Generator>, Vec<String>> {
    let Some(spec) = find_generator(&named.name) else {
        let names: Vec<_> = GENERATORS.iter().map(|spec| spec.name).collect();
        let names = names.join(", ");
        return Err(vec![format!("generator: `{}` is unknown; use one of {names}", named.name)]);
    };
    let mut given = Vec::new();
    let mut errors = Vec::new();
    for (name, value) in &named.params {
        match value {
            Scalar::Number(number) => given.push((name.clone(), *number)),
            other => errors.push(format!("generator.{name}: {other} is not a number; use one")),
        }
    }
    match spec.build(&given) {
        Ok(generator) if errors.is_empty() => Ok(generator.into()),
        Ok(_) => Err(errors),
        Err(more) => {
            errors.extend(more.iter().map(|e| format!("generator: {e}")));
            Err(errors)
        }
    }
}
