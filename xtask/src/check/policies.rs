//! `docs/policies.md` agrees with the binary about every policy.
//!
//! `./x docs` generates the page from `meridian policies --verbose`, so a policy's line in the
//! registry is its documentation too.

use super::Rule;
use super::made::MadePage;

pub(crate) const RULE: Rule = Rule {
    name: "policies",
    holds: "docs/policies.md is what the binary says",
    run: |house| PAGE.check(house),
};

pub(super) const PAGE: MadePage =
    MadePage { path: "docs/policies.md", args: ["policies", "--verbose"], render: page };

const HEAD: &str = "# Policies

A policy decides which of the eligible replicas gets a request. The admission mode decides which
replicas are eligible; each policy brings one along, and the configuration may name another.
Parameters have the defaults of the publication or the software that the policy comes from.

Packages have all of these policies. A build from source has those that are no other router's rule;
the feature `rivals` of meridian-cli adds the rest. `meridian policies` lists what a program has.

This page is made by `./x docs` from `meridian policies --verbose`.
";

/// Makes the page from unindented names and the indented facts under them.
fn page(verbose: &str) -> anyhow::Result<String> {
    let mut page = String::from(HEAD);
    let mut table = "";
    for line in verbose.lines() {
        let Some(fact) = line.strip_prefix("    ") else {
            page += &format!("\n## `{line}`\n\n");
            table = "";
            continue;
        };
        let row = row(fact)?;
        if let Some((kind, row)) = row {
            if table != kind {
                page += &head(kind);
            }
            table = kind;
            page += &row;
            continue;
        }
        page += &if let Some(source) = fact.strip_prefix("source: ") {
            format!("From: {source}. ")
        } else if let Some(admission) = fact.strip_prefix("admission: ") {
            format!("Admission: `{admission}`.\n")
        } else {
            format!("{}.\n\n", capital(fact))
        };
    }
    Ok(page)
}

/// The head of a table of parameters, figures or functions.
fn head(kind: &str) -> String {
    match kind {
        "parameter" => "\n| parameter | default | meaning |\n| --- | --- | --- |\n".to_owned(),
        kind => format!("\n| {kind} | is |\n| --- | --- |\n"),
    }
}

/// A fact as a row of a table of its kind; `None` if it belongs to the text.
fn row(fact: &str) -> anyhow::Result<Option<(&'static str, String)>> {
    for kind in ["figure", "function"] {
        let named = fact.strip_prefix(kind).and_then(|rest| rest.strip_prefix(' '));
        if let Some((name, meaning)) = named.and_then(|rest| rest.split_once(": ")) {
            return Ok(Some((kind, format!("| `{name}` | {meaning} |\n"))));
        }
    }
    if ["source: ", "admission: "].iter().any(|start| fact.starts_with(start)) {
        return Ok(None);
    }
    let Some((name, rest)) = fact.split_once(" = ") else { return Ok(None) };
    let (default, meaning) = rest
        .split_once(": ")
        .ok_or_else(|| anyhow::anyhow!("meridian policies: no meaning in {fact:?}"))?;
    Ok(Some(("parameter", format!("| `{name}` | {default} | {meaning} |\n"))))
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    // Every fact that the binary prints appears on the page.
    #[test]
    fn the_page_holds_every_fact() {
        let verbose = "p2c\n    the less loaded of two\n    source: sglang-router\n    \
                       admission: blind\n    load = kv: what load is\n    figure x: a\n    figure y: b\nrandom\n    any\n";
        let wanted = "\n## `p2c`\n\nThe less loaded of two.\n\nFrom: sglang-router. \
                      Admission: `blind`.\n\n| parameter | default | meaning |\n| --- | --- | --- |\n\
                      | `load` | kv | what load is |\n\n| figure | is |\n| --- | --- |\n\
                      | `x` | a |\n| `y` | b |\n\n## `random`\n\nAny.\n\n";
        assert_eq!(page(verbose).unwrap().strip_prefix(HEAD), Some(wanted));
    }
}
