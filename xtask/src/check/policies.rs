//! The table of `docs/routing.md` agrees with the binary about every policy.
//!
//! `./x docs` generates it from `meridian policies --verbose`, so a policy's line in the registry is
//! its documentation too. The table omits sources and the meanings of parameters, which the command
//! prints.

use super::Rule;
use super::made::MadePart;

pub(crate) const RULE: Rule = Rule {
    name: "policies",
    holds: "the policies of docs/routing.md are the binary's",
    run: |house| PART.check(house),
};

pub(super) const PART: MadePart =
    MadePart { path: "docs/routing.md", args: ["policies", "--verbose"], render: table };

const HEAD: &str = "| policy | chooses | admission | parameters |\n| --- | --- | --- | --- |\n";

/// A policy as the binary prints it: an unindented name and indented facts, the first of which is
/// the summary.
#[derive(Default)]
struct Policy<'a> {
    name: &'a str,
    summary: &'a str,
    admission: &'a str,
    /// `name = default`.
    parameters: Vec<&'a str>,
}

/// Makes the table.
fn table(verbose: &str) -> anyhow::Result<String> {
    let rows: Vec<String> = policies(verbose)?.iter().map(row).collect();
    Ok(format!("{HEAD}{}", rows.concat()))
}

fn policies(verbose: &str) -> anyhow::Result<Vec<Policy<'_>>> {
    let mut policies: Vec<Policy<'_>> = Vec::new();
    for line in verbose.lines() {
        let Some(fact) = line.strip_prefix("    ") else {
            policies.push(Policy { name: line, ..Policy::default() });
            continue;
        };
        let policy = policies
            .last_mut()
            .ok_or_else(|| anyhow::anyhow!("meridian policies: no name before {fact:?}"))?;
        if policy.summary.is_empty() {
            policy.summary = fact;
        } else if let Some(admission) = fact.strip_prefix("admission: ") {
            policy.admission = admission;
        } else if is_parameter(fact) {
            policy.parameters.push(fact.split_once(": ").map_or(fact, |(parameter, _)| parameter));
        }
    }
    Ok(policies)
}

/// A parameter is `name = default: meaning`; other facts begin with their kind.
fn is_parameter(fact: &str) -> bool {
    fact.split_once(" = ").is_some_and(|(name, _)| !name.contains([' ', ':']))
}

fn row(policy: &Policy<'_>) -> String {
    let parameters = policy.parameters.iter().map(|one| format!("`{one}`"));
    let parameters = parameters.collect::<Vec<_>>().join(", ");
    let Policy { name, summary, admission, .. } = policy;
    format!("| `{name}` | {summary} | `{admission}` | {parameters} |\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    // A row holds what a reader chooses by; sources, figures and meanings stay with the command.
    #[test]
    fn the_table_has_a_row_for_each_policy() {
        let verbose = "p2c\n    the less loaded of two\n    source: sglang-router\n    \
                       admission: blind\n    load = kv: what load is\n    figure x: a = b\nrandom\n    \
                       any\n    admission: blind\n";
        let wanted = "| `p2c` | the less loaded of two | `blind` | `load = kv` |\n\
                      | `random` | any | `blind` |  |\n";
        assert_eq!(table(verbose).unwrap().strip_prefix(HEAD), Some(wanted));
    }
}
