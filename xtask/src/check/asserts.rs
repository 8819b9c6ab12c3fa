//! The asserts that stay on in a release build only get more.
//!
//! `assert!`, `assert_eq!` and `assert_ne!` outside tests state what a crate relies on, and stop it
//! where that is wrong, instead of later and elsewhere. `debug_assert!` is off in the product.

use std::collections::{BTreeMap, BTreeSet};

use super::Rule;
use super::code::code;
use super::ratchet::{Better, Numbers, Ratchet};
use super::sources::{Source, sources};
use super::tokens::Kind;
use crate::house::House;

pub(crate) const RULE: Rule = Rule {
    name: "asserts",
    holds: "asserts that stay on only get more",
    run: |house| {
        let counted = counted(&sources(house));
        println!("       {}", shown(&counted));
        RATCHET.judge(house, &asserts(&counted), &|_| String::new())
    },
};

pub(super) const RATCHET: Ratchet = Ratchet {
    name: RULE.name,
    better: Better::More,
    moves: true,
    remedy: "keep an assert for each thing that the code relies on",
    measure: |house: &House| Ok(asserts(&counted(&sources(house)))),
};

/// Asserts and lines of code by crate.
type Counted<'a> = BTreeMap<&'a str, (usize, usize)>;

fn counted<'a>(sources: &[Source<'a>]) -> Counted<'a> {
    let mut counted = Counted::new();
    for source in sources {
        let code = code(source.text);
        let is_assert = |kind| matches!(kind, Kind::Word("assert" | "assert_eq" | "assert_ne"));
        let calls = code.windows(2);
        let calls = calls.filter(|pair| is_assert(pair[0].kind) && pair[1].kind == Kind::Mark('!'));
        let lines: BTreeSet<usize> = code.iter().map(|token| token.line).collect();
        let (asserts, of_code) = counted.entry(source.owner).or_default();
        *asserts += calls.count();
        *of_code += lines.len();
    }
    counted
}

fn asserts(counted: &Counted<'_>) -> Numbers {
    let numbers = counted.iter().map(|(name, (asserts, _))| ((*name).to_owned(), *asserts));
    numbers.filter(|(_, asserts)| *asserts > 0).collect()
}

fn shown(counted: &Counted<'_>) -> String {
    let asserts: usize = counted.values().map(|(asserts, _)| asserts).sum();
    let lines: usize = counted.values().map(|(_, lines)| lines).sum();
    // Tenths, without floating point.
    let tenths = asserts * 10_000 / lines.max(1);
    format!("{asserts} asserts, {}.{} per 1,000 lines of code", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    // Only asserts that a release build has count; a crate without them has no line.
    #[test]
    fn only_asserts_that_stay_on_count() {
        let text = "fn f() {\n  assert!(a);\n  assert_eq!(a, b);\n  debug_assert!(a);\n\n\
                    \x20 unreachable!();\n  // assert!(a)\n}\n\
                    #[cfg(test)]\nmod tests { fn g() { assert!(a) } }\n";
        let source = |owner, text| Source { owner, folder: "", path: "", text };
        let sources = [source("a", text), source("b", "fn f() {}\n")];
        let counted = counted(&sources);
        assert_eq!(asserts(&counted), [("a".to_owned(), 2)].into());
        assert_eq!(shown(&counted), "2 asserts, 285.7 per 1,000 lines of code");
    }
}
