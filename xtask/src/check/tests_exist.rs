//! Every file that cargo builds as a test program contains a test.
//!
//! An empty one always passes: cargo reports it as ok with no test run.

use std::path::{Path, PathBuf};

use super::{Broken, Rule, of};
use crate::house::House;

pub(crate) const RULE: Rule = Rule {
    name: "tests",
    holds: "every test program holds a test",
    run: |house| {
        let mut found = Vec::new();
        for package in house.packages() {
            for target in package.targets.iter().filter(|target| target.is_test()) {
                let path = target.src_path.strip_prefix(&house.root).unwrap_or(&target.src_path);
                found.extend(broken(path.as_str(), &with_modules(house, path.as_std_path())));
            }
        }
        Ok(found)
    },
};

/// The program's text and that of the modules in its folder.
fn with_modules(house: &House, main: &Path) -> String {
    let folder = folder_of(main);
    let inside = house.files.iter().filter(|file| {
        let path = Path::new(&file.path);
        path == main || path.starts_with(&folder)
    });
    inside.filter_map(|file| file.text.as_deref()).collect()
}

/// `tests/a/` for `tests/a.rs` and for `tests/a/main.rs`.
fn folder_of(main: &Path) -> PathBuf {
    let whole = main.file_name().is_some_and(|name| name == "main.rs");
    if whole { main.with_file_name("") } else { main.with_extension("") }
}

fn broken(path: &str, text: &str) -> Option<Broken> {
    const MARKS: [&str; 4] = ["#[test]", "#[tokio::test", "proptest!", "test_case("];
    let holds = MARKS.iter().any(|mark| text.contains(mark));
    (!holds).then(|| of(path, "holds no test; write one or take the file out"))
}

#[cfg(test)]
mod tests {
    use super::*;

    // A program in a folder has its tests in the files next to its main one.
    #[test]
    fn knows_both_forms_of_a_program() {
        assert_eq!(folder_of(Path::new("tests/a.rs")), Path::new("tests/a"));
        assert_eq!(folder_of(Path::new("tests/a/main.rs")), Path::new("tests/a"));
    }

    // A test program with only helpers in it would pass without testing anything.
    #[test]
    fn an_empty_test_program_is_found() {
        assert!(broken("tests/a.rs", "fn helper() {}").is_some());
        assert_eq!(broken("tests/a.rs", "#[test]\nfn a() {}"), None);
    }
}
