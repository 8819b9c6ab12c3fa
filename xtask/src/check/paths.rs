//! No file contains a path of a developer's machine.
//!
//! Tests use the system's folder for temporary files and paths from the root of the repository.

use super::{Broken, Rule, at};
use crate::house::File;

pub(crate) const RULE: Rule = Rule {
    name: "paths",
    holds: "no file names a path of one machine",
    run: |house| Ok(house.files.iter().flat_map(broken).collect()),
};

/// In two halves, so that this file does not break its own rule.
const PLACES: &[(&str, &str)] =
    &[("/ho", "me/"), ("/ro", "ot/"), ("/Us", "ers/"), ("/wo", "rk/"), ("../sha", "red")];

fn broken(file: &File) -> Vec<Broken> {
    let mut found = Vec::new();
    for (number, line) in file.lines() {
        for place in PLACES.iter().map(|(a, b)| format!("{a}{b}")) {
            if starts_a_path(line, &place) {
                let what = format!("{place} is one machine's; name it from the root, or by $HOME");
                found.push(at(&file.path, number, what));
            }
        }
    }
    found
}

/// Whether the place is the start of a path there: `docs/srv/a` is a path of the repository, and
/// `{id}/srv/a` one of an API.
fn starts_a_path(line: &str, place: &str) -> bool {
    line.match_indices(place).any(|(start, _)| {
        !line[..start]
            .ends_with(|c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '}'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    // A user's folder in a script is found, with its line.
    #[test]
    fn finds_a_path_of_a_machine() {
        let text = ["first", concat!("cd /ho", "me/ann/meridian")].join("\n");
        assert_eq!(broken(&File::of("run.sh", &text))[0].place, "run.sh:2");
    }

    // The same letters in the middle of a path or an address are something else.
    #[test]
    fn leaves_other_paths_alone() {
        let text =
            concat!("docs/wo", "rk/a.md https://example.org/a/ho", "me/b product/ro", "ot/c");
        assert_eq!(broken(&File::of("a.md", text)), []);
    }
}
