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

This page is made by `./x docs` from `meridian policies --verbose`.
";

/// Makes the page from unindented names and the indented facts under them.
fn page(verbose: &str) -> anyhow::Result<String> {
    let mut page = String::from(HEAD);
    let mut table = false;
    for line in verbose.lines() {
        let Some(fact) = line.strip_prefix("    ") else {
            page += &format!("\n## `{line}`\n\n");
            table = false;
            continue;
        };
        page += &if let Some(source) = fact.strip_prefix("source: ") {
            format!("From: {source}. ")
        } else if let Some(admission) = fact.strip_prefix("admission: ") {
            format!("Admission: `{admission}`.\n")
        } else if let Some((name, rest)) = fact.split_once(" = ") {
            let (default, meaning) = rest
                .split_once(": ")
                .ok_or_else(|| anyhow::anyhow!("meridian policies: no meaning in {fact:?}"))?;
            let head = if table {
                ""
            } else {
                "\n| parameter | default | meaning |\n| --- | --- | --- |\n"
            };
            table = true;
            format!("{head}| `{name}` | {default} | {meaning} |\n")
        } else {
            format!("{}.\n\n", capital(fact))
        };
    }
    Ok(page)
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
                       admission: blind\n    load = kv: what load is\nrandom\n    any\n";
        let wanted = "\n## `p2c`\n\nThe less loaded of two.\n\nFrom: sglang-router. \
                      Admission: `blind`.\n\n| parameter | default | meaning |\n| --- | --- | --- |\n\
                      | `load` | kv | what load is |\n\n## `random`\n\nAny.\n\n";
        assert_eq!(page(verbose).unwrap().strip_prefix(HEAD), Some(wanted));
    }
}
