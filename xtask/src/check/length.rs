//! A Rust file has at most 400 lines in `product/` and 500 elsewhere, tests included.
//!
//! A file has one idea. A longer one usually has two, and who changes one of them reads both.

use super::Rule;
use super::ratchet::{Better, Numbers, Ratchet};
use crate::house::File;

pub(crate) const RULE: Rule = Rule {
    name: "length",
    holds: "no new file over 400 lines, 500 outside product/",
    run: |house| RATCHET.check(house),
};

pub(super) const RATCHET: Ratchet = Ratchet {
    name: RULE.name,
    better: Better::Less,
    moves: false,
    remedy: "move its second idea into a file of its own, and tests into `tests.rs` beside it",
    measure: |house| Ok(measured(&house.files)),
};

fn measured(files: &[File]) -> Numbers {
    let sources = files.iter().filter(|file| file.path.ends_with(".rs"));
    let lengths = sources.map(|file| (file.path.clone(), file.lines().count()));
    lengths.filter(|(path, lines)| *lines > limit(path)).collect()
}

fn limit(path: &str) -> usize {
    if path.starts_with("product/") { 400 } else { 500 }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Exactly the limit of its tree is allowed, one line more is not; other files have no limit.
    #[test]
    fn one_line_over_is_found() {
        let of = |path: &str, lines| measured(&[File::of(path, &"\n".repeat(lines))]);
        assert_eq!(of("product/a/src/lib.rs", 400), Numbers::new());
        assert_eq!(of("product/a/src/lib.rs", 401).values().collect::<Vec<_>>(), [&401]);
        assert_eq!(of("lab/a/tests/all.rs", 500), Numbers::new());
        assert_eq!(of("lab/a/tests/all.rs", 501).len(), 1);
        assert_eq!(of("product/a/page.html", 900), Numbers::new());
    }
}
