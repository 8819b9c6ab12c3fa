//! No page says that something is absent which a configuration key is named after.
//!
//! `There are no aliases` was true until `models.NAME.alias` came. Most statements of absence are about
//! things that no key has, so only those are found whose noun is a word of a key: `there is no NOUN`,
//! `NOUN: none`, and a row of two cells of which the second is `none`. One that is right all the same
//! says why in a comment on its line, `<!-- absent: REASON -->`.

use std::collections::BTreeSet;

use super::{Broken, Rule, at, of};
use crate::house::House;

pub(crate) const RULE: Rule = Rule {
    name: "absences",
    holds: "no page denies what a configuration key does",
    run: |house| {
        let keys = house.file(KEYS)?;
        let words = words_of_keys(keys);
        if words.is_empty() {
            return Ok(vec![of(KEYS, "has no table of keys; write it with ./x docs")]);
        }
        Ok(pages(house).flat_map(|(path, text)| broken(path, text, &words)).collect())
    },
};

/// The page with the table of all keys.
const KEYS: &str = "docs/configuration.md";

fn pages(house: &House) -> impl Iterator<Item = (&str, &str)> {
    let is_page = |path: &str| {
        path.ends_with(".md") && (path.starts_with("docs/") || path.starts_with("lab/docs/"))
    };
    let all = house.files.iter().filter(move |file| is_page(&file.path));
    all.filter_map(|file| Some((file.path.as_str(), file.text.as_deref()?)))
}

/// Stems of the words of the keys in the made table.
fn words_of_keys(page: &str) -> BTreeSet<String> {
    let rows = page.lines().skip_while(|line| !line.starts_with("| key | default |"));
    let rows = rows.take_while(|line| line.starts_with('|'));
    let keys = rows.filter_map(|row| row.strip_prefix("| `")?.split_once('`'));
    let meant = keys.flat_map(|(key, rest)| {
        // What a list of sections has inside stands in its meaning: `models`: aliases, fallbacks.
        let inside = if rest.contains(':') { rest } else { "" };
        words(key).chain(words(inside.split_once(':').map_or("", |(_, list)| list)))
    });
    meant.collect()
}

/// The stems of the words of a text.
fn words(text: &str) -> impl Iterator<Item = String> {
    let all = text.split(|c: char| !c.is_ascii_alphabetic());
    all.map(stem).filter(|word| word.len() >= LEAST)
}

/// Letters of the shortest stem that counts.
const LEAST: usize = 4;

/// `tracing`, `traces` and `trace` have one stem.
fn stem(word: &str) -> String {
    let word = word.to_ascii_lowercase();
    let ends = ["ing", "es", "s", "e"];
    ends.iter().find_map(|end| word.strip_suffix(end)).unwrap_or(&word).to_owned()
}

fn broken(path: &str, text: &str, keys: &BTreeSet<String>) -> Vec<Broken> {
    let mut found = Vec::new();
    let mut in_code = false;
    for (number, line) in (1..).zip(text.lines()) {
        in_code ^= line.trim_start().starts_with("```");
        if in_code || line.contains("<!-- absent:") {
            continue;
        }
        for word in denied(line).iter().filter(|word| keys.contains(*word)) {
            let what = format!(
                "denies `{word}`, a word of a configuration key; correct it, or say why in `<!-- absent: REASON -->`"
            );
            found.push(at(path, number, what));
        }
    }
    found
}

/// The stems of what a line says is absent.
fn denied(line: &str) -> Vec<String> {
    let lower = line.to_ascii_lowercase();
    let mut found = Vec::new();
    for phrase in ["there is no ", "there are no "] {
        for (start, _) in lower.match_indices(phrase) {
            let rest = &lower[start + phrase.len()..];
            found.extend(rest.split_whitespace().next().map(|word| words(word).last()));
        }
    }
    // In code, it is a value to write.
    for (start, _) in lower.match_indices(": none").filter(|(at, _)| !is_code(&lower, *at)) {
        found.push(words(lower[..start].split_whitespace().last().unwrap_or_default()).last());
    }
    let cells: Vec<&str> = lower.trim().trim_matches('|').split('|').map(str::trim).collect();
    if let [what, "none"] = cells.as_slice() {
        found.extend(words(what).map(Some));
    }
    found.into_iter().flatten().collect()
}

/// Whether a place of a line is within backticks.
fn is_code(line: &str, at: usize) -> bool {
    line[..at].matches('`').count() % 2 == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "| key | default | reloads | meaning |\n| --- | --- | --- | --- |\n\
        | `models` |  | yes | Models by name: aliases, fallbacks and limits. |\n\
        | `traces.endpoint` |  | yes | Address of the collector. |\n";

    // The statements that were out of date are found, in each of their forms.
    #[test]
    fn what_exists_is_not_denied() {
        let keys = words_of_keys(PAGE);
        for line in [
            "There are no aliases: clients use the engine's name.",
            "tracing: none",
            "| `--model-alias` (smg) | none |",
            "| `--enable-trace` | none |",
        ] {
            assert_eq!(broken("docs/a.md", line, &keys).len(), 1, "{line}");
        }
    }

    // Other things may be absent, and so may these where the line says why.
    #[test]
    fn the_rest_may_be_absent() {
        let keys = words_of_keys(PAGE);
        for line in [
            "There is no recursion, DNSSEC or zone transfer.",
            "| `--wasm-middleware` | none |",
            "| `peers.listen` | none | everyone |",
            "There are no aliases of aliases. <!-- absent: models::circles -->",
            "```\nthere are no traces\n```",
        ] {
            assert_eq!(broken("docs/a.md", line, &keys), [], "{line}");
        }
    }
}
