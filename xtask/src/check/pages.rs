//! The documents of users stay few and short, and result tables name the command that prints them.
//!
//! A page that only grows hides what a reader needs. Measured results live in files that their
//! command generates; a document links them.

use super::{Broken, Rule, at, of};
use crate::house::File;

pub(crate) const RULE: Rule = Rule {
    name: "pages",
    holds: "few and short user pages; result tables have their command",
    run: |house| Ok(too_much(&house.files).into_iter().chain(results(&house.files)).collect()),
};

/// Where a user's pages are.
const USERS: &str = "docs/";
/// Where pages link results instead of having them.
const READERS: [&str; 3] = [USERS, "lab/", "README.md"];
const MOST_PAGES: usize = 20;
const MOST_WORDS: usize = 42_000;

/// Comments that name the command of the tables below them.
const MARKS: [&str; 2] = ["<!-- generated: ", "<!-- made by "];
const END: &str = "<!-- end of the made part -->";
/// Most rows of results without such a comment.
const MOST_ROWS: usize = 10;

fn is_page(file: &File) -> bool {
    file.path.ends_with(".md")
}

fn too_much(files: &[File]) -> Vec<Broken> {
    let pages: Vec<&File> =
        files.iter().filter(|one| is_page(one) && one.path.starts_with(USERS)).collect();
    let words = |page: &&File| written(page.text.as_deref().unwrap_or_default());
    let (count, sum) = (pages.len(), pages.iter().map(words).sum::<usize>());
    let mut found = Vec::new();
    if count > MOST_PAGES {
        found.push(of(USERS, format!("has {count} pages, over {MOST_PAGES}; merge some")));
    }
    if sum > MOST_WORDS {
        found.push(of(USERS, format!("has {sum} words, over {MOST_WORDS}; say each thing once")));
    }
    found
}

/// Words outside the parts that a command makes.
fn written(page: &str) -> usize {
    let (mut made, mut words) = (false, 0);
    for line in page.lines() {
        made |= line.starts_with(MARKS[1]);
        words += if made { 0 } else { line.split_whitespace().count() };
        made &= line != END;
    }
    words
}

fn results(files: &[File]) -> Vec<Broken> {
    let is_for_readers =
        |one: &&File| is_page(one) && READERS.iter().any(|at| one.path.starts_with(at));
    files.iter().filter(is_for_readers).flat_map(unmarked).collect()
}

/// Long tables of numbers outside the parts that a command generates.
fn unmarked(page: &File) -> Vec<Broken> {
    let mut found = Vec::new();
    let (mut marked, mut start, mut rows) = (false, 0, Vec::new());
    for (number, line) in page.lines().chain([(0, "")]) {
        if line.starts_with("| ") {
            if rows.is_empty() {
                start = number;
            }
            rows.push(line);
            continue;
        }
        // The head and the line under it are no results.
        if !marked && rows.len() > MOST_ROWS + 2 && are_results(&rows[2..]) {
            let what = "is a long table of results; move it to a file that begins with \
                        `<!-- generated: COMMAND -->`, and link that";
            found.push(at(&page.path, start, what));
        }
        rows.clear();
        if MARKS.iter().any(|mark| line.starts_with(mark)) {
            marked = true;
        } else if line == END {
            marked = false;
        }
    }
    found
}

/// Whether most cells behind the first one of a row are numbers.
fn are_results(rows: &[&str]) -> bool {
    let cells = rows.iter().flat_map(|row| row.trim_matches('|').split('|').skip(1));
    let is_number = |cell: &str| cell.trim().starts_with(|c: char| c.is_ascii_digit());
    let (numbers, others): (Vec<&str>, Vec<&str>) = cells.partition(|cell| is_number(cell));
    numbers.len() > others.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(row: &str) -> String {
        format!("\n| a | b |\n| --- | --- |\n{}\n", format!("{row}\n").repeat(MOST_ROWS + 1))
    }

    // Numbers need the comment that names their command; words do not, and a made part ends.
    #[test]
    fn finds_results_without_their_command() {
        let judged = |text: &str| unmarked(&File::of("docs/a.md", text)).len();
        assert_eq!(judged(&table("| x | 1.5 |")), 1);
        assert_eq!(judged(&table("| x | yes |")), 0);
        assert_eq!(judged(&format!("<!-- generated: meridian x -->\n{}", table("| x | 1 |"))), 0);
        let ended = format!("<!-- made by x -->\n{END}\n{}", table("| x | 1 |"));
        assert_eq!(judged(&ended), 1);
    }

    // Pages and words beyond the limits are found; other folders have no such limits.
    #[test]
    fn finds_too_many_pages_and_words() {
        let many = |folder: &str, count: usize, words: usize| {
            let page = |number| File::of(&format!("{folder}/{number}.md"), &"a ".repeat(words));
            too_much(&(0..count).map(page).collect::<Vec<_>>()).len()
        };
        assert_eq!(many("docs", MOST_PAGES, 10), 0);
        assert_eq!(many("docs", MOST_PAGES + 1, 10), 1);
        assert_eq!(many("docs", 1, MOST_WORDS + 1), 1);
        assert_eq!(many("lab/docs", MOST_PAGES + 1, MOST_WORDS), 0);
        assert_eq!(written(&format!("a b\n<!-- made by x -->\nc d e\n{END}\nf\n")), 3);
    }
}
