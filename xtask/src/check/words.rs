//! The files contain nothing unfinished, and no test is disabled.
//!
//! A comment does not promise future work; a test asserts a known defect as it is, with the reason.
//! The words are assembled here so that this file does not break its own rule.

use super::{Broken, Rule, at};
use crate::house::File;

pub(crate) const RULE: Rule = Rule {
    name: "words",
    holds: "nothing unfinished, no test switched off",
    run: |house| Ok(house.files.iter().flat_map(broken).collect()),
};

/// Words that must not appear in a file, and their remedies.
const WORDS: &[(&str, &str)] = &[
    (concat!("TO", "DO"), LATER),
    (concat!("FIX", "ME"), LATER),
    (concat!("XX", "X"), LATER),
    (concat!("todo", "!("), "write it, or leave out what needs it"),
    (concat!("unimplemented", "!("), "write it, or leave out what needs it"),
    (concat!("#[ign", "ore"), "assert what happens today, with the reason, or take the test out"),
];
const LATER: &str = "do it now, or describe the limit as it is";

fn broken(file: &File) -> Vec<Broken> {
    let mut found = Vec::new();
    for (number, line) in file.lines() {
        for (word, remedy) in WORDS.iter().filter(|(word, _)| holds(line, word)) {
            found.push(at(&file.path, number, format!("{word}; {remedy}")));
        }
    }
    found
}

/// Whether the word appears there by itself, not inside a longer one.
fn holds(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(start, _)| {
        let before = line[..start].chars().next_back();
        let after = line[start + word.len()..].chars().next();
        let joins = |next: Option<char>| next.is_some_and(|c| c.is_alphanumeric() || c == '_');
        let open_ended = !word.ends_with(char::is_alphanumeric);
        !joins(before) && (open_ended || word.starts_with('#') || !joins(after))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    // Each word is found in its usual place.
    #[test]
    fn finds_what_is_unfinished() {
        for (word, _) in WORDS {
            let line = format!("    {word} later");
            assert_eq!(broken(&File::of("a.rs", &line)).len(), 1, "{line}");
        }
    }

    // A name that contains such a word is only a name.
    #[test]
    fn leaves_longer_words_alone() {
        let text = concat!("MASTO", "DON AXX", "X ", "TO", "DOS ", "not_todo", "!()");
        assert_eq!(broken(&File::of("a.rs", text)), []);
    }
}
