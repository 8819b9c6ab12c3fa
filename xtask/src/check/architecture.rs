//! ARCHITECTURE.md stays short, the diffs of CONTRIBUTING.md name files that exist, and every decision
//! has a page with the same parts.
//!
//! Readers skip a page that only grows. ARCHITECTURE.md says where things are; the reasons belong
//! in notes/decisions, with a page for each decision that the index there links.

use super::{Broken, Rule, at, of};
use crate::house::{File, House, in_a_tree};
use crate::md;

pub(crate) const RULE: Rule = Rule {
    name: "architecture",
    holds: "ARCHITECTURE.md is short, its paths and decisions are whole",
    run: |house| {
        let found = of_page(house).into_iter().chain(of_diffs(house));
        Ok(found.chain(of_decisions(&house.files)).collect())
    },
};

const PAGE: &str = "ARCHITECTURE.md";
/// The page with worked changes.
const DIFFS: &str = "CONTRIBUTING.md";
const MOST_WORDS: usize = 2500;

const DECISIONS: &str = "notes/decisions/";
const INDEX: &str = "notes/decisions/README.md";
/// Pages there that are not decisions.
const OTHERS: [&str; 2] = [INDEX, "notes/decisions/dependencies.md"];
const PARTS: [&str; 3] = ["## Context", "## Decision", "## Consequences"];

fn of_page(house: &House) -> Vec<Broken> {
    let Some(text) = house.text(PAGE) else { return vec![of(PAGE, "is not there")] };
    Vec::from_iter(too_long(text)).into_iter().chain(lost_paths(text, &house.files)).collect()
}

fn too_long(text: &str) -> Option<Broken> {
    let words = text.split_whitespace().count();
    let what = format!("has {words} words, over {MOST_WORDS}; move reasons into {DECISIONS}");
    (words > MOST_WORDS).then(|| of(PAGE, what))
}

/// Code spans that name a missing file or folder. `request/admit.rs` matches the end of a path.
fn lost_paths(text: &str, files: &[File]) -> Vec<Broken> {
    let is_path = |span: &str| {
        let named = span.ends_with(".rs") || span.ends_with('/') || in_a_tree(span);
        named && !span.contains([' ', '*'])
    };
    let exists = |span: &str| {
        let (inside, whole) = (format!("/{span}"), span.trim_end_matches('/'));
        files.iter().any(|file| match file.path.strip_prefix(whole) {
            Some(rest) if rest.is_empty() || rest.starts_with('/') => true,
            _ if span.ends_with('/') => file.path.contains(&inside),
            _ => file.path.ends_with(&inside),
        })
    };
    let lost = md::code(text).into_iter().filter(|(_, span)| is_path(span) && !exists(span));
    lost.map(|(line, span)| at(PAGE, line, format!("{span} is not there"))).collect()
}

fn of_diffs(house: &House) -> Vec<Broken> {
    let Some(text) = house.text(DIFFS) else { return vec![of(DIFFS, "is not there")] };
    let changed = md::fenced(text).into_iter().filter_map(|(line, code)| {
        let path = code.strip_prefix("--- a/")?;
        house.text(path).is_none().then(|| at(DIFFS, line, format!("{path} is not there")))
    });
    changed.collect()
}

fn of_decisions(files: &[File]) -> Vec<Broken> {
    let index = files.iter().find(|file| file.path == INDEX);
    let index = index.and_then(|file| file.text.as_deref()).unwrap_or_default();
    let linked: Vec<&str> = md::links(index).into_iter().map(|(_, target)| target).collect();
    let pages = files.iter().filter(|file| {
        let name = file.path.as_str();
        name.starts_with(DECISIONS) && name.ends_with(".md") && !OTHERS.contains(&name)
    });
    pages.flat_map(|page| of_decision(page, &linked)).collect()
}

fn of_decision(page: &File, linked: &[&str]) -> Vec<Broken> {
    let text = page.text.as_deref().unwrap_or_default();
    let mut found = Vec::new();
    if !text.lines().any(|line| line.strip_prefix("Date: ").is_some_and(is_date)) {
        found.push(of(&page.path, "has no line `Date: YYYY-MM-DD`"));
    }
    for part in PARTS {
        let body = text.split_once(&format!("\n{part}\n")).map(|(_, after)| after);
        let body = body.map(|after| after.split("\n## ").next().unwrap_or_default().trim());
        if body.is_none_or(str::is_empty) {
            found.push(of(&page.path, format!("lacks `{part}`, or says nothing there")));
        }
    }
    if !linked.iter().any(|target| page.path == format!("{DECISIONS}{target}")) {
        found.push(of(&page.path, format!("is not in {INDEX}; add its line")));
    }
    found
}

fn is_date(text: &str) -> bool {
    let parts: Vec<_> =
        text.split('-').map(|part| (part.len(), part.parse::<u16>().ok())).collect();
    matches!(parts.as_slice(), [(4, Some(_)), (2, Some(1..=12)), (2, Some(1..=31))])
}

#[cfg(test)]
mod tests {
    use super::*;

    // Exactly the limit is allowed.
    #[test]
    fn a_long_page_is_found() {
        assert_eq!(too_long(&"word ".repeat(MOST_WORDS)), None);
        let found = too_long(&"word ".repeat(MOST_WORDS + 1)).unwrap();
        assert!(found.what.starts_with("has 2501 words"), "{}", found.what);
    }

    // A span that looks like a path must be a file or folder, or the end of a file's path.
    #[test]
    fn a_lost_path_is_found() {
        let files = [File::of("product/a/src/m/b.rs", "")];
        let text = "`product/a` `m/b.rs` `src/m/` `product/a/src/m/b.rs`\n`product/gone` `b/m/` `x y/`\n`n/b.rs`";
        let said: Vec<_> = lost_paths(text, &files).into_iter().map(|one| one.what).collect();
        let lost = ["product/gone is not there", "b/m/ is not there", "n/b.rs is not there"];
        assert_eq!(said, lost);
    }

    // Each missing part of a page is named, and so is a page that the index does not link.
    #[test]
    fn a_page_without_its_parts_is_found() {
        let good = "# A\n\nDate: 2026-01-31\n\n## Context\n\na\n\n## Decision\n\nb\n\n\
                    ## Consequences\n\nc\n";
        let bad = "# A\n\nDate: soon\n\n## Context\n\n## Decision\n\nb\n";
        let files = [
            File::of(INDEX, "[good](good.md)"),
            File::of("notes/decisions/good.md", good),
            File::of("notes/decisions/bad.md", bad),
        ];
        let found = of_decisions(&files);
        assert!(found.iter().all(|one| one.place == "notes/decisions/bad.md"));
        let said: Vec<_> = found.iter().map(|one| one.what.as_str()).collect();
        assert_eq!(said.len(), 4, "{said:?}");
        assert!(said[0].contains("Date") && said[1].contains("Context"), "{said:?}");
        assert!(said[2].contains("Consequences") && said[3].contains("README.md"), "{said:?}");
    }
}
