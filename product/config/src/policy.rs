//! Finds the policy that a configuration names, and completes its parameters.

use meridian_protocol::policy::{Policy, Scalar};
use meridian_protocol::{closest, suggest};
use meridian_routing::policy::{Given, Param, ParamError, Params, Spec, Value};

use crate::policies;

/// The declaration and the complete parameters of a policy.
///
/// # Errors
/// Every problem of the name and the parameters, each with its remedy.
pub fn resolve(policy: &Policy) -> Result<(&'static Spec, Params), Vec<String>> {
    resolve_as(policy, "policy")
}

/// The same for the policy at this key of a file.
pub(crate) fn resolve_as(
    policy: &Policy,
    key: &str,
) -> Result<(&'static Spec, Params), Vec<String>> {
    let Some(spec) = policies::find(&policy.name) else { return Err(vec![unknown(policy, key)]) };
    let given: Vec<_> = policy.params.iter().map(|(k, v)| (k.clone(), given(v))).collect();
    Params::complete(spec, &given)
        .map(|params| (spec, params))
        .map_err(|errors| errors.iter().map(|e| describe(policy, key, spec, e)).collect())
}

fn unknown(Policy { name, .. }: &Policy, key: &str) -> String {
    let names: Vec<_> = policies::all().iter().map(|spec| spec.name).collect();
    let more = match closest(name, &names) {
        None if !policies::has_more() => {
            ". This build lacks the policies of other routers (cargo feature `rivals`)"
        }
        _ => "",
    };
    format!("{key}: `{name}` is unknown; {}{more}", suggest(name, &names))
}

fn describe(policy: &Policy, key: &str, spec: &Spec, error: &ParamError) -> String {
    match error {
        ParamError::Unknown(name) => {
            let known: Vec<_> = spec.params.iter().map(|p| p.name).collect();
            let remedy = match known.as_slice() {
                [] => "it has none; remove this one".to_owned(),
                known => suggest(name, known),
            };
            format!("{key}.{name}: `{}` has no such parameter; {remedy}", spec.name)
        }
        ParamError::Text(name, error) => {
            let remedy = match closest(&error.word, &error.known) {
                _ if error.known.is_empty() => String::new(),
                Some(one) => format!("; did you mean `{one}`?"),
                None => format!("; use one of {}", error.known.join(", ")),
            };
            format!("{key}.{name}: character {}: {}{remedy}", error.character, error.message)
        }
        ParamError::Invalid(name) => {
            let param = spec.params.iter().find(|p| p.name == *name);
            let given = policy.params.get(*name).map(|v| format!("{v}")).unwrap_or_default();
            let refusal = param.map(refusal).unwrap_or_default();
            format!("{key}.{name}: {given} {refusal}")
        }
    }
}

fn refusal(param: &Param) -> String {
    let words = param.words.join(", ");
    let (least, most) = param.range;
    match (param.takes_numbers(), param.words) {
        _ if param.check.is_some() => "is not an expression; write one in quotes".to_owned(),
        (false, _) => format!("is unknown; use one of {words}"),
        (true, []) => format!("is out of range; use a number from {least} to {most}"),
        (true, _) => {
            format!("is out of range; use a number from {least} to {most}, or one of {words}")
        }
    }
}

fn given(value: &Scalar) -> Given {
    match value {
        Scalar::Number(n) => Given::Number(*n),
        Scalar::Flag(b) => Given::Word(if *b { "on" } else { "off" }.to_owned()),
        Scalar::Word(w) => Given::Word(w.clone()),
    }
}

/// A parameter's value as it stands in a file.
#[must_use]
pub fn scalar(value: &Value) -> Scalar {
    match value {
        Value::Number(n) => Scalar::Number(*n),
        Value::Word(w) => Scalar::Word((*w).to_owned()),
        Value::Text(text) => Scalar::Word(text.to_string()),
    }
}
