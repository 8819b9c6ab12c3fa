//! A type's name is declared in at most three crates.
//!
//! `State`, `Error` or `Spec` in ten crates says nothing at the place where it is used, and a search
//! for it finds all ten. Structs, enums, traits and type aliases count, outside tests; the types
//! inside a trait or an `impl` do not.

use std::collections::{BTreeMap, BTreeSet};

use super::Rule;
use super::code::code;
use super::ratchet::{Better, Numbers, Ratchet};
use super::sources::{Source, sources};
use super::tokens::{Kind, Token};
use crate::house::House;

pub(crate) const RULE: Rule = Rule {
    name: "type-names",
    holds: "no type name is declared in more than three crates",
    run: |house| {
        let sources = sources(house);
        let declared = declared(&sources);
        println!("       most declarations: {}", most(&declared));
        RATCHET.judge(house, &measured(&declared), &|name| owners(&declared, name))
    },
};

pub(super) const RATCHET: Ratchet = Ratchet {
    name: RULE.name,
    better: Better::Less,
    moves: false,
    remedy: "choose a name that says what the type is for, or use the other crate's type",
    measure: |house: &House| Ok(measured(&declared(&sources(house)))),
};

const LIMIT: usize = 3;

/// Of each name: the crates that declare it, and how often.
type Declared<'a> = BTreeMap<&'a str, BTreeMap<&'a str, usize>>;

fn declared<'a>(sources: &[Source<'a>]) -> Declared<'a> {
    let mut declared = Declared::new();
    for source in sources {
        for name in names(&code(source.text)) {
            *declared.entry(name).or_default().entry(source.owner).or_default() += 1;
        }
    }
    declared
}

fn names<'a>(tokens: &[Token<'a>]) -> Vec<&'a str> {
    let mut names = Vec::new();
    // For each open brace, whether it is the body of a trait or an `impl`.
    let mut open = Vec::new();
    let mut heads_methods = false;
    for (at, token) in tokens.iter().enumerate() {
        let next = tokens.get(at + 1).map(|token| token.kind);
        match token.kind {
            Kind::Mark('{') => open.push(std::mem::take(&mut heads_methods)),
            Kind::Mark('}') => drop(open.pop()),
            Kind::Mark(';') => heads_methods = false,
            Kind::Word("impl") => heads_methods = true,
            Kind::Word(word @ ("struct" | "enum" | "trait" | "type")) => {
                heads_methods |= word == "trait";
                let inside = word == "type" && open.last() == Some(&true);
                match next {
                    Some(Kind::Word(name)) if !inside => names.push(name),
                    _ => {}
                }
            }
            _ => {}
        }
    }
    names
}

fn measured(declared: &Declared<'_>) -> Numbers {
    let counts = declared.iter().map(|(name, crates)| ((*name).to_owned(), crates.len()));
    counts.filter(|(_, crates)| *crates > LIMIT).collect()
}

/// The crates that declare a name.
fn owners(declared: &Declared<'_>, name: &str) -> String {
    let owners = declared.get(name).into_iter().flat_map(BTreeMap::keys).copied();
    format!(" (declared in {})", owners.collect::<Vec<_>>().join(", "))
}

/// `Spec 30, Error 20`: the ten names that are declared most often.
fn most(declared: &Declared<'_>) -> String {
    let count = |crates: &BTreeMap<&str, usize>| crates.values().sum::<usize>();
    let counts = declared.iter().map(|(name, crates)| (std::cmp::Reverse(count(crates)), *name));
    let counts: BTreeSet<_> = counts.collect();
    let shown: Vec<_> =
        counts.iter().take(10).map(|(count, name)| format!("{name} {}", count.0)).collect();
    shown.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source<'a>(owner: &'a str, text: &'a str) -> Source<'a> {
        Source { owner, folder: "", path: "", text }
    }

    // A crate counts once; the fourth is one too many.
    #[test]
    fn the_fourth_crate_is_found() {
        let mut all: Vec<_> =
            ["a", "b", "c"].map(|owner| source(owner, "struct State;\nenum State {}")).into();
        assert_eq!(measured(&declared(&all)), Numbers::new());
        all.push(source("d", "trait State {}\nstruct Other;"));
        assert_eq!(measured(&declared(&all)), [("State".to_owned(), 4)].into());
        assert_eq!(most(&declared(&all)), "State 7, Other 1");
        assert_eq!(owners(&declared(&all), "State"), " (declared in a, b, c, d)");
    }

    // Types of tests and of traits are not declarations, and neither are uses.
    #[test]
    fn only_declarations_count() {
        let text = "impl Iterator for A { type Item = B; fn f() { struct In; } }\n\
                    trait T: U { type Out; }\nfn g(x: impl Fn()) { }\ntype Alias = A;\n\
                    #[cfg(test)]\nmod tests { struct No; }\n// struct No;\nfn h(r#type: &str) {}\n";
        assert_eq!(names(&code(text)), ["In", "T", "Alias"]);
    }
}
