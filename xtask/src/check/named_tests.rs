//! Tests named in a document exist.
//!
//! A document names a test as `file::function` in a code span; `file` is the stem of the file or
//! one of its folders. A page that names tests lists them in [`PAGES`]: elsewhere such a span may
//! be an item of a library.

use std::path::Path;

use super::{Broken, Rule, at};
use crate::house::File;
use crate::md;

/// The documents whose claims name the tests that show them.
const PAGES: [&str; 2] = ["docs/operations.md", "lab/docs/up-and-chaos.md"];

pub(crate) const RULE: Rule = Rule {
    name: "named-tests",
    holds: "tests that a document names are there",
    run: |house| {
        let mut found = Vec::new();
        for name in PAGES {
            match house.files.iter().find(|file| file.path == name) {
                Some(page) => found.extend(broken(page, &house.files)),
                None => found.push(super::of(name, "is not there; take it out of PAGES")),
            }
        }
        Ok(found)
    },
};

fn broken(page: &File, files: &[File]) -> Vec<Broken> {
    let spans = md::code(page.text.as_deref().unwrap_or_default());
    let named = spans.into_iter().filter_map(|(line, span)| Some((line, span, test(span)?)));
    let missing = named.filter(|(_, _, (file, function))| !is_there(files, file, function));
    missing.map(|(line, span, _)| at(&page.path, line, format!("no test {span}"))).collect()
}

/// The file and the function of `file::function`.
fn test(span: &str) -> Option<(&str, &str)> {
    let is_name = |name: &str| {
        let letters = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        !name.is_empty() && name.chars().all(letters)
    };
    span.split_once("::").filter(|(file, function)| is_name(file) && is_name(function))
}

fn is_there(files: &[File], file: &str, function: &str) -> bool {
    let of_file = |path: &Path| {
        let names = path.with_extension("");
        names.components().any(|part| part.as_os_str() == file)
    };
    let sources = files.iter().filter(|one| one.path.ends_with(".rs"));
    let mut texts = sources.filter(|one| of_file(Path::new(&one.path)));
    texts.any(|one| one.text.as_deref().is_some_and(|text| has_test(text, function)))
}

/// Whether a test attribute comes between `function` and the end of the item before it.
fn has_test(text: &str, function: &str) -> bool {
    const MARKS: [&str; 2] = ["#[test]", "#[tokio::test"];
    let head = format!("fn {function}(");
    text.match_indices(&head).any(|(at, _)| {
        let above = text[..at].rsplit("}\n").next().unwrap_or_default();
        MARKS.iter().any(|mark| above.contains(mark))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    // A test is found by its file or folder and its name; a helper of that name, or a test of
    // another file, does not count.
    #[test]
    fn a_test_that_is_not_there_is_found() {
        let files = [
            File::of("a/tests/driver/limits.rs", "#[test]\nfn too_large() {}\nfn helper() {}\n"),
            File::of("a/tests/driver/common.rs", "fn helper() {}\n"),
        ];
        let text =
            "`limits::too_large` `driver::too_large`\n`limits::gone`\n`driver::helper` `A::b`";
        let found = broken(&File::of("docs/attacks.md", text), &files);
        let places: Vec<_> = found.iter().map(|one| one.what.as_str()).collect();
        assert_eq!(places, ["no test limits::gone", "no test driver::helper"]);
    }
}
