//! Functions of more than 70 lines are listed, and the list only gets shorter.
//!
//! Clippy counts the lines (`clippy.toml`) and accepts an `expect` for a function that must be
//! longer; it also reports when that is no longer needed. But clippy can't keep the number of such
//! places from growing. Each is listed here, so a new one shows in the diff.

use super::{Broken, Rule, at, of};
use crate::house::File;

pub(crate) const RULE: Rule = Rule {
    name: "functions",
    holds: "functions over 70 lines are the listed ones",
    run: |house| Ok(broken(&house.files, LISTED)),
};

/// Files, one line for each function over 70 lines.
const LISTED: &[&str] = &[];

const ALLOWANCES: [&str; 2] =
    [concat!("expect(clippy::", "too_many_lines"), concat!("allow(clippy::", "too_many_lines")];

fn broken(files: &[File], listed: &[&str]) -> Vec<Broken> {
    let mut left: Vec<&str> = listed.to_vec();
    let mut found = Vec::new();
    for file in files.iter().filter(|file| file.path.ends_with(".rs")) {
        for (number, line) in file.lines() {
            if !ALLOWANCES.iter().any(|allowance| line.contains(allowance)) {
                continue;
            }
            match left.iter().position(|path| *path == file.path) {
                Some(place) => drop(left.remove(place)),
                None => found.push(at(
                    &file.path,
                    number,
                    "a function over 70 lines that is not listed; split it by its ideas",
                )),
            }
        }
    }
    let gone = "is listed for a long function that is gone; take it off the list";
    found.extend(left.into_iter().map(|path| of(path, gone)));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn long() -> File {
        let allowance = format!("#[{}, reason = \"a table\")]\nfn f() {{}}\n", ALLOWANCES[0]);
        File::of("a.rs", &allowance)
    }

    // A long function is a violation until it is listed.
    #[test]
    fn a_new_long_function_is_found() {
        assert_eq!(broken(&[long()], &[])[0].place, "a.rs:1");
        assert_eq!(broken(&[long()], &["a.rs"]), []);
    }

    // The list shrinks with the code: a line without a long function is a violation too.
    #[test]
    fn a_stale_line_is_found() {
        assert_eq!(broken(&[long()], &["a.rs", "a.rs"])[0].place, "a.rs");
    }
}
