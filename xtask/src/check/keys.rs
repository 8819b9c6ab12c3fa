//! The table of `docs/configuration.md` agrees with the binary about every key of a gateway's file.
//!
//! `./x docs` generates it from `meridian config keys`, whose meanings are the comments of the
//! configuration's fields.

use super::Rule;
use super::made::MadePart;

pub(crate) const RULE: Rule = Rule {
    name: "keys",
    holds: "the keys of docs/configuration.md are the binary's",
    run: |house| PART.check(house),
};

pub(super) const PART: MadePart =
    MadePart { path: "docs/configuration.md", args: ["config", "keys"], render: table };

const HEAD: &str = "| key | default | reloads | meaning |
| --- | --- | --- | --- |
";

/// Makes the table from unindented keys, and three indented facts under each.
fn table(printed: &str) -> anyhow::Result<String> {
    let mut page = String::from(HEAD);
    let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
    let mut lines = printed.lines();
    while let Some(key) = lines.next() {
        let mut fact = |name: &str| {
            let line = lines.next().and_then(|line| line.strip_prefix("    "));
            let value = line.and_then(|line| line.strip_prefix(name)?.strip_prefix(": "));
            value.ok_or_else(|| anyhow::anyhow!("meridian config keys: {key} has no {name}"))
        };
        let (default, reloads, meaning) = (fact("default")?, fact("reloads")?, fact("meaning")?);
        let default = if default == "none" { String::new() } else { format!("`{default}`") };
        let word = reloads.split_once(": ").map_or(reloads, |(no, reason)| {
            match reasons.iter_mut().find(|(known, _)| *known == reason) {
                Some((_, keys)) => keys.push(key),
                None => reasons.push((reason, vec![key])),
            }
            no
        });
        let meaning = meaning.replace('|', "\\|");
        page += &format!("| `{key}` | {default} | {word} | {meaning} |\n");
    }
    page += "\n| keys that need a restart | because |\n| --- | --- |\n";
    for (reason, keys) in reasons {
        let keys: Vec<String> = keys.iter().map(|key| format!("`{key}`")).collect();
        page += &format!("| {} | {reason} |\n", keys.join(", "));
    }
    Ok(page)
}

#[cfg(test)]
mod tests {
    use super::*;

    // Every fact that the binary prints appears in the table, and a reason once.
    #[test]
    fn the_table_holds_every_fact() {
        let printed = "a\n    default: 1\n    reloads: yes\n    meaning: A | b.\n\
                       b.c\n    default: none\n    reloads: no: why\n    meaning: C.\n\
                       d\n    default: none\n    reloads: no: why\n    meaning: D.\n";
        let wanted = "| `a` | `1` | yes | A \\| b. |\n| `b.c` |  | no | C. |\n| `d` |  | no | D. |\n\
                      \n| keys that need a restart | because |\n| --- | --- |\n| `b.c`, `d` | why |\n";
        assert_eq!(table(printed).unwrap().strip_prefix(HEAD), Some(wanted));
    }
}
