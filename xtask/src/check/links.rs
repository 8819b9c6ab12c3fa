//! Links in the documents lead to existing files and headings.
//!
//! Links to other sites are not checked: a check that needs the network fails for reasons outside
//! our control.

use std::path::{Component, Path, PathBuf};

use super::{Broken, Rule, at};
use crate::house::{File, House};
use crate::md;

pub(crate) const RULE: Rule = Rule {
    name: "links",
    holds: "links in documents lead to files and headings that are there",
    run: |house| {
        let pages = house.files.iter().filter(|file| file.path.ends_with(".md"));
        Ok(pages.flat_map(|page| broken(page, |path| place(house, path))).collect())
    },
};

/// A place that a link leads to.
enum Target {
    None,
    /// A page with these anchors.
    Page(Vec<String>),
    /// Another file, or a folder.
    Other,
}

fn place(house: &House, path: &Path) -> Target {
    if !house.root.join(path).exists() {
        return Target::None;
    }
    let page = path.to_str().filter(|name| name.ends_with(".md")).and_then(|name| house.text(name));
    page.map_or(Target::Other, |text| Target::Page(md::anchors(text)))
}

fn broken(page: &File, place: impl Fn(&Path) -> Target) -> Vec<Broken> {
    let folder = Path::new(&page.path).parent().unwrap_or(Path::new(""));
    let mut found = Vec::new();
    for (number, target) in md::links(page.text.as_deref().unwrap_or_default()) {
        if target.contains("://") || target.starts_with("mailto:") {
            continue;
        }
        let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
        let there = if file.is_empty() { page.path.as_str().into() } else { folder.join(file) };
        let wrong = match place(&plain(&there)) {
            Target::None => true,
            Target::Page(anchors) => !anchor.is_empty() && !anchors.iter().any(|one| one == anchor),
            Target::Other => false,
        };
        if wrong {
            found.push(at(&page.path, number, format!("{target} leads nowhere")));
        }
    }
    found
}

/// Without `.` and `..`, which would hide a missing folder.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(plain.pop()),
            Component::CurDir => {}
            other => plain.push(other),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    // Relative to the page, with `..` and anchors; other sites are skipped.
    #[test]
    fn a_link_to_nowhere_is_found() {
        let text = "[a](../STYLE.md#names) [b](gone.md)\n[c](https://example.org/x)\n\
                    [d](../STYLE.md#gone) [e](#here) [f](../src)";
        let page = File::of("docs/config.md", text);
        let found = broken(&page, |path| match path.to_str() {
            Some("STYLE.md") => Target::Page(vec!["names".to_owned()]),
            Some("docs/config.md") => Target::Page(vec!["here".to_owned()]),
            Some("src") => Target::Other,
            _ => Target::None,
        });
        let nowhere =
            |line, what: &str| at("docs/config.md", line, format!("{what} leads nowhere"));
        assert_eq!(found, [nowhere(1, "gone.md"), nowhere(3, "../STYLE.md#gone")]);
    }
}
