//! `docs/configuration.md` agrees with the binary about every key of a gateway's file.
//!
//! `./x docs` generates the page from `meridian config keys`, whose meanings are the comments of the
//! configuration's fields.

use super::Rule;
use super::made::MadePage;

pub(crate) const RULE: Rule = Rule {
    name: "keys",
    holds: "docs/configuration.md is what the binary says",
    run: |house| PAGE.check(house),
};

pub(super) const PAGE: MadePage =
    MadePage { path: "docs/configuration.md", args: ["config", "keys"], render: page };

const HEAD: &str = "# Configuration keys

Every key of a gateway's file. [gateway.md](gateway.md#configuration) explains them by topic, and
`meridian config schema` prints their forms as a JSON schema. A key below a section is written
`section.key`. A list is one key.

Keys with \"yes\" [reload](gateway.md#hot-reload): a running gateway adopts a change of the file without
dropping a request or a connection. A change of the others needs a restart, for the reason below the
table.

This page is made by `./x docs` from `meridian config keys`.

| key | default | reloads | meaning |
| --- | --- | --- | --- |
";

/// Makes the page from unindented keys, and three indented facts under each.
fn page(printed: &str) -> anyhow::Result<String> {
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

    // Every fact that the binary prints appears on the page, and a reason once.
    #[test]
    fn the_page_holds_every_fact() {
        let printed = "a\n    default: 1\n    reloads: yes\n    meaning: A | b.\n\
                       b.c\n    default: none\n    reloads: no: why\n    meaning: C.\n\
                       d\n    default: none\n    reloads: no: why\n    meaning: D.\n";
        let wanted = "| `a` | `1` | yes | A \\| b. |\n| `b.c` |  | no | C. |\n| `d` |  | no | D. |\n\
                      \n| keys that need a restart | because |\n| --- | --- |\n| `b.c`, `d` | why |\n";
        assert_eq!(page(printed).unwrap().strip_prefix(HEAD), Some(wanted));
    }
}
