//! Links in the documents lead to existing files.
//!
//! Links to other sites are not checked: a check that needs the network fails for reasons outside
//! our control.

use std::path::{Component, Path, PathBuf};

use super::{Broken, Rule, at};
use crate::house::File;
use crate::md;

pub(crate) const RULE: Rule = Rule {
    name: "links",
    holds: "links in documents lead to files that are there",
    run: |house| {
        let exists = |path: &Path| house.root.join(path).exists();
        let pages = house.files.iter().filter(|file| file.path.ends_with(".md"));
        Ok(pages.flat_map(|page| broken(page, exists)).collect())
    },
};

fn broken(page: &File, exists: impl Fn(&Path) -> bool) -> Vec<Broken> {
    let folder = Path::new(&page.path).parent().unwrap_or(Path::new(""));
    let mut found = Vec::new();
    for (number, target) in md::links(page.text.as_deref().unwrap_or_default()) {
        let file = target.split('#').next().unwrap_or_default();
        if target.contains("://") || target.starts_with("mailto:") || file.is_empty() {
            continue;
        }
        if !exists(&plain(&folder.join(file))) {
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
        let text = "[a](../STYLE.md#names) [b](gone.md)\n[c](https://example.org/x)";
        let page = File::of("docs/config.md", text);
        let found = broken(&page, |path| path == Path::new("STYLE.md"));
        assert_eq!(found, [at("docs/config.md", 1, "gone.md leads nowhere")]);
    }
}
