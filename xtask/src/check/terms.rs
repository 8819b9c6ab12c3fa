//! Identifiers of the product and of the machines use the project's words.
//!
//! The table is in STYLE.md. Types, functions, fields, modules and files count, outside
//! tests. Strings and comments do not: an engine's own field names, and words for readers who know
//! another name, are right there.

use anyhow::Context as _;

use super::Rule;
use super::code::code;
use super::purity::PURE;
use super::ratchet::{Better, Numbers, Ratchet};
use super::sources::{Source, sources};
use super::tokens::Kind;
use crate::house::House;

pub(crate) const RULE: Rule = Rule {
    name: "terms",
    holds: "identifiers use the words of STYLE.md",
    run: |house| {
        let uses = of_house(house)?;
        RATCHET.judge(house, &measured(&uses), &|key| places(&uses, key))
    },
};

pub(super) const RATCHET: Ratchet = Ratchet {
    name: RULE.name,
    better: Better::Less,
    moves: false,
    remedy: "use the word that STYLE.md has for it (Words in identifiers)",
    measure: |house: &House| Ok(measured(&of_house(house)?)),
};

const PAGE: &str = "STYLE.md";
const HEADING: &str = "## Words in identifiers";

/// Names that other libraries and protocols chose, and a verb.
const FINE: &[&str] = &[
    "LookupIpStrategy",
    "StorageBackend",
    "create_with_backend",
    "do_remote_decode",
    "do_remote_prefill",
    "ip_strategy",
    "overlaps",
    "remote_bootstrap_addr",
    "remote_engine_id",
];

/// Places named in a message.
const SHOWN: usize = 8;

/// One use of a word that the table forbids.
struct Use<'a> {
    owner: &'a str,
    word: &'a str,
    path: &'a str,
    line: usize,
}

impl Use<'_> {
    fn key(&self) -> String {
        format!("{} {}", self.owner, self.word)
    }
}

fn of_house(house: &House) -> anyhow::Result<Vec<Use<'_>>> {
    let forbidden = forbidden(house.file(PAGE)?)?;
    let mut sources = sources(house);
    sources.retain(|one| one.folder.starts_with("product/") || PURE.contains(&one.owner));
    Ok(uses(&sources, &forbidden))
}

/// The second column of the page's table.
fn forbidden(page: &str) -> anyhow::Result<Vec<&str>> {
    let (_, section) = page.split_once(HEADING).with_context(|| format!("{PAGE}: no {HEADING}"))?;
    let section = section.split("\n## ").next().unwrap_or(section);
    let rows = section.lines().filter(|line| line.starts_with("| ")).skip(2);
    let words: Vec<&str> =
        rows.filter_map(|row| row.split('|').nth(2)).flat_map(|cell| cell.split(',')).collect();
    anyhow::ensure!(!words.is_empty(), "{PAGE}: {HEADING} has no table");
    Ok(words.into_iter().map(str::trim).collect())
}

fn uses<'a>(sources: &[Source<'a>], forbidden: &[&'a str]) -> Vec<Use<'a>> {
    let mut found = Vec::new();
    for Source { owner, path, text, .. } in sources {
        let inside = path.split_once("/src/").map_or(*path, |(_, inside)| inside);
        let identifiers = code(text).into_iter().filter_map(|token| match token.kind {
            Kind::Word(word) => Some((token.line, word)),
            _ => None,
        });
        let parts = inside.split(['/', '.']).map(|part| (1, part));
        for (line, identifier) in parts.chain(identifiers) {
            if FINE.contains(&identifier) {
                continue;
            }
            let words = words(identifier);
            for word in forbidden.iter().filter(|word| words.iter().any(|one| is(one, word))) {
                found.push(Use { owner, word, path, line });
            }
        }
    }
    found
}

/// The words of a name in either spelling, in lower case.
fn words(identifier: &str) -> Vec<String> {
    let letters: Vec<char> = identifier.chars().collect();
    let mut words = vec![String::new()];
    for (at, letter) in letters.iter().enumerate() {
        let after_small = at > 0 && !letters[at - 1].is_uppercase();
        let before_small = letters.get(at + 1).is_some_and(|next| next.is_lowercase());
        let starts = letter.is_uppercase() && (after_small || before_small);
        if starts || *letter == '_' {
            words.push(String::new());
        }
        if *letter != '_' {
            let last = words.last_mut().expect("there is always a word");
            last.extend(letter.to_lowercase());
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Whether it is the word, or its plural.
fn is(one: &str, word: &str) -> bool {
    let plural = |root: &str, end: &str| one.strip_prefix(root) == Some(end);
    one == word
        || plural(word, "s")
        || word.strip_suffix('y').is_some_and(|root| plural(root, "ies"))
}

fn measured(uses: &[Use<'_>]) -> Numbers {
    let mut numbers = Numbers::new();
    for one in uses {
        *numbers.entry(one.key()).or_default() += 1;
    }
    numbers
}

/// The first places of a word in a crate.
fn places(uses: &[Use<'_>], key: &str) -> String {
    let uses: Vec<_> = uses.iter().filter(|one| one.key() == key).collect();
    let mut lines: Vec<_> =
        uses.iter().take(SHOWN).map(|one| format!("{}:{}", one.path, one.line)).collect();
    if uses.len() > SHOWN {
        lines.push(format!("and {} more", uses.len() - SHOWN));
    }
    lines.iter().map(|line| format!("\n         {line}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "# A\n\n## Words in identifiers\n\n| say | not |\n| --- | --- |\n\
        | replica | worker, backend |\n| policy | strategy |\n\n## Other\n\n| a | b |\n| c | d |\n";

    fn found(path: &str, text: &str) -> Vec<String> {
        let forbidden = forbidden(TABLE).unwrap();
        let source = Source { owner: "a", folder: "product/a", path, text };
        let uses = uses(&[source], &forbidden);
        uses.iter().map(|one| format!("{} {}", one.key(), one.line)).collect()
    }

    // Names in either spelling, plurals, and files are found, with their lines.
    #[test]
    fn forbidden_words_are_found() {
        let text = "struct WorkerPool;\nfn f(my_backends: u8) {}\nconst STRATEGIES: u8 = 1;\n";
        let path = "product/a/src/backend/lib.rs";
        assert_eq!(found(path, text), ["a backend 1", "a worker 1", "a backend 2", "a strategy 3"]);
        let forbidden = forbidden(TABLE).unwrap();
        let source = Source { owner: "a", folder: "product/a", path, text };
        let uses = uses(&[source], &forbidden);
        assert_eq!(places(&uses, "a worker").trim(), "product/a/src/backend/lib.rs:1");
    }

    // Longer words, names that others chose, strings, comments and tests are fine.
    #[test]
    fn other_uses_are_fine() {
        let text = "fn reworker() { \"worker\"; ip_strategy() } // backend\n\
                    #[serde(backend)]\nstruct A;\n#[cfg(test)]\nmod tests { fn worker() {} }\n";
        assert_eq!(found("product/a/src/lib.rs", text), [""; 0]);
    }

    // A page without the table is an error, not an empty list.
    #[test]
    fn a_missing_table_is_an_error() {
        assert!(forbidden("# A\n").is_err());
        assert!(forbidden("## Words in identifiers\n\nNone.\n").is_err());
    }

    // Words are split at underscores and at capitals.
    #[test]
    fn names_have_words() {
        assert_eq!(words("HTTPServer_ofX2"), ["http", "server", "of", "x2"]);
        assert_eq!(words("MOST_ZONES"), ["most", "zones"]);
    }
}
