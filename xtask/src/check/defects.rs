//! `notes/defects/README.md` lists the test of every defect that people outside the project found.
//!
//! Such a test has a comment that begins with `// Defect NAME:` and says what holds now. `./x docs` makes the table
//! from these comments.

use std::collections::BTreeSet;

use anyhow::Context as _;

use super::{Rule, of};
use crate::house::{File, House};

pub(crate) const RULE: Rule = Rule {
    name: "defects",
    holds: "the list of defects has the test of each",
    run: |house| {
        let page = house.file(PAGE)?;
        let tests = all(&house.files)?;
        Ok(if page == with(page, &tests)? {
            vec![]
        } else {
            vec![of(PAGE, "is out of date; run ./x docs")]
        })
    },
};

const PAGE: &str = "notes/defects/README.md";
const START: &str = "<!-- made by ./x docs from comments of tests -->\n";
const END: &str = "<!-- end of the made part -->\n";
/// What the first line of such a comment begins with.
const MARK: &str = "// Defect ";

/// A test of a defect.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Test<'a> {
    defect: &'a str,
    holds: String,
    path: &'a str,
    function: &'a str,
}

/// Writes the page with the current list.
pub(super) fn write(house: &House) -> anyhow::Result<()> {
    std::fs::write(house.root.join(PAGE), with(house.file(PAGE)?, &all(&house.files)?)?)?;
    println!("wrote {PAGE}");
    Ok(())
}

fn all(files: &[File]) -> anyhow::Result<BTreeSet<Test<'_>>> {
    let sources = files.iter().filter(|file| file.path.ends_with(".rs"));
    let found = sources.flat_map(|file| {
        // The rule itself names the mark, in no comment.
        let lines: Vec<&str> =
            file.text.as_deref().unwrap_or_default().lines().map(str::trim).collect();
        let marked = (0..lines.len()).filter(|at| lines[*at].starts_with(MARK)).collect::<Vec<_>>();
        marked.into_iter().map(move |at| {
            test(&file.path, &lines[at..]).with_context(|| format!("{}:{}", file.path, at + 1))
        })
    });
    found.collect()
}

/// The test that follows a comment, whose first line is the first of these.
fn test<'a>(path: &'a str, lines: &[&'a str]) -> anyhow::Result<Test<'a>> {
    let comment: Vec<&str> = lines.iter().map_while(|line| line.strip_prefix("// ")).collect();
    let rest = lines[0].strip_prefix(MARK).unwrap_or_default();
    let (defect, _) = rest.split_once(':').context("no colon after the defect's name")?;
    let text = comment.join(" ");
    let (_, holds) = text.split_once(": ").context("nothing after the defect's name")?;
    let code = &lines[comment.len()..];
    let heads = code.iter().take_while(|line| !line.is_empty());
    let function = heads
        .filter_map(|line| line.split_once("fn ")?.1.split_once('('))
        .map(|(name, _)| name)
        .next();
    let function = function.context("no test follows the comment")?;
    Ok(Test { defect, holds: holds.to_owned(), path, function })
}

/// The page with a row for each test.
fn with(page: &str, tests: &BTreeSet<Test<'_>>) -> anyhow::Result<String> {
    let (before, rest) =
        page.split_once(START).with_context(|| format!("{PAGE} lacks {}", START.trim_end()))?;
    let (_, after) =
        rest.split_once(END).with_context(|| format!("{PAGE} lacks {}", END.trim_end()))?;
    let mut table = "| defect | what holds now | test |\n| --- | --- | --- |\n".to_owned();
    for Test { defect, holds, path, function } in tests {
        let cell = holds.replace('|', "\\|");
        table += &format!("| {defect} | {cell} | [`{function}`](../../{path}) |\n");
    }
    Ok(format!("{before}{START}\n{table}\n{END}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: &str = "product/a/src/b.rs";

    fn page(rows: &str) -> String {
        format!(
            "# A\n{START}\n| defect | what holds now | test |\n| --- | --- | --- |\n{rows}\n{END}\nB\n"
        )
    }

    // A test that was added to the sources is missing on the page, with its whole comment.
    #[test]
    fn a_new_test_is_missing() {
        let mark = MARK;
        let source = format!(
            "{mark}a-name: one line\n// and another | one.\n#[test]\nasync fn it_holds() {{\n"
        );
        let files = [File::of(PLACE, &source)];
        let tests = all(&files).unwrap();
        let row =
            format!("| a-name | one line and another \\| one. | [`it_holds`](../../{PLACE}) |\n");
        assert_eq!(with(&page(""), &tests).unwrap(), page(&row));
    }

    // A comment that no test follows has an error with its place.
    #[test]
    fn a_comment_needs_its_test() {
        let files = [File::of(PLACE, &format!("\n{MARK}a: b.\nconst A: u8 = 1;\n\nfn c() {{}}\n"))];
        assert_eq!(all(&files).unwrap_err().to_string(), format!("{PLACE}:2"));
    }
}
