//! The tables of `docs/engines.md` agree with the binary about every engine.
//!
//! `./x docs` generates them from `meridian engines --verbose`, so an engine's line in the
//! table is its documentation too.

use super::Rule;
use super::made::MadePart;

pub(crate) const RULE: Rule = Rule {
    name: "engines",
    holds: "the tables of docs/engines.md are what the binary says",
    run: |house| PART.check(house),
};

pub(super) const PART: MadePart =
    MadePart { path: "docs/engines.md", args: ["engines", "--verbose"], render: tables };

/// Makes the tables from unindented names and the indented facts under them; the first fact is the
/// summary.
fn tables(verbose: &str) -> anyhow::Result<String> {
    let mut page = String::new();
    let mut named = false;
    for line in verbose.lines() {
        let Some(fact) = line.strip_prefix("    ") else {
            page += &format!("\n### `{line}`\n\n");
            named = true;
            continue;
        };
        page += &if std::mem::take(&mut named) {
            format!("{fact}.\n\n| what | value |\n| --- | --- |\n")
        } else {
            let (what, value) = fact
                .split_once(": ")
                .ok_or_else(|| anyhow::anyhow!("meridian engines: no value in {fact:?}"))?;
            format!("| {what} | {value} |\n")
        };
    }
    Ok(page)
}

#[cfg(test)]
mod tests {
    use super::*;

    // Every fact that the binary prints appears in the tables.
    #[test]
    fn the_tables_hold_every_fact() {
        let verbose =
            "one\n    Any: other\n    load: `/metrics`\ntwo\n    vTwo 3\n    load: `/x`\n";
        let table = "| what | value |\n| --- | --- |\n";
        let wanted = format!(
            "\n### `one`\n\nAny: other.\n\n{table}| load | `/metrics` |\n\
             \n### `two`\n\nvTwo 3.\n\n{table}| load | `/x` |\n"
        );
        assert_eq!(tables(verbose).unwrap(), wanted);
    }
}
