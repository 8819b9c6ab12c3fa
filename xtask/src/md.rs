//! A minimal Markdown parser for the rules: it finds code and link targets.
//!
//! It supports fences, code spans and inline links, but not HTML, nested brackets or reference
//! links, which the documents do not use.

/// A piece of a line, with the number of the line.
pub(crate) type Piece<'a> = (usize, &'a str);

/// The lines inside fences and the spans between backticks.
pub(crate) fn code(text: &str) -> Vec<Piece<'_>> {
    let mut found = Vec::new();
    for (number, line, fenced) in lines(text) {
        if fenced {
            found.push((number, line.trim()));
        } else {
            found.extend(line.split('`').skip(1).step_by(2).map(|span| (number, span)));
        }
    }
    found
}

/// The lines inside fences.
pub(crate) fn fenced(text: &str) -> Vec<Piece<'_>> {
    let inside = lines(text).into_iter().filter(|(.., fenced)| *fenced);
    inside.map(|(number, line, _)| (number, line)).collect()
}

/// The targets of `[text](target)` and `![text](target)` outside code.
pub(crate) fn links(text: &str) -> Vec<Piece<'_>> {
    let mut found = Vec::new();
    for (number, line, fenced) in lines(text) {
        if fenced {
            continue;
        }
        for prose in line.split('`').step_by(2) {
            for rest in prose.split("](").skip(1) {
                found.extend(rest.split_once(')').map(|(target, _)| (number, target)));
            }
        }
    }
    found
}

/// The anchors of the headings, as GitHub names them.
pub(crate) fn anchors(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for (_, line, _) in lines(text).into_iter().filter(|(.., fenced)| !fenced) {
        let heading = line.trim_start_matches('#');
        if heading.len() == line.len() || !heading.starts_with(' ') {
            continue;
        }
        let anchor = anchor(heading.trim());
        let again = found.iter().filter(|one| **one == anchor).count();
        found.push(if again == 0 { anchor } else { format!("{anchor}-{again}") });
    }
    found
}

fn anchor(heading: &str) -> String {
    let letters = heading.chars().flat_map(char::to_lowercase);
    let kept = letters.filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// The paragraphs outside code, each with the number of its first line. A line of a list or a table
/// is a paragraph of its own.
pub(crate) fn prose(text: &str) -> Vec<(usize, String)> {
    let mut found: Vec<(usize, String)> = Vec::new();
    let mut last = 0;
    for (number, line, fenced) in lines(text) {
        if fenced {
            continue;
        }
        let outside: Vec<&str> = line.split('`').step_by(2).collect();
        let outside = outside.join("`");
        let joins = last + 1 == number && !line.trim().is_empty() && !line.starts_with(['|', '#']);
        match found.last_mut().filter(|_| joins) {
            Some((_, paragraph)) => {
                paragraph.push('\n');
                paragraph.push_str(&outside);
            }
            None => found.push((number, outside)),
        }
        last = number;
    }
    found
}

/// Lines with their numbers and whether they are inside a fence; the fences themselves are left
/// out.
fn lines(text: &str) -> Vec<(usize, &str, bool)> {
    let mut fenced = false;
    let mut kept = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else {
            kept.push((number, line, fenced));
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "see [a](b.md) and `./x up`\n```sh\n$ ./x test\n[no](link.md)\n```\n`x`";

    // Marks go, spaces become hyphens, a repeated heading gets a number, and comments of code are no
    // headings.
    #[test]
    fn anchors_of_headings() {
        let text = "# A `b-c`: d\n#no\n```\n# code\n```\n## Two\n### Two\n";
        assert_eq!(anchors(text), ["a-b-c-d", "two", "two-1"]);
    }

    // Code is the text in fences and between backticks, each with its line.
    #[test]
    fn finds_code() {
        assert_eq!(code(PAGE), [(1, "./x up"), (3, "$ ./x test"), (4, "[no](link.md)"), (6, "x")]);
    }

    // A link inside a fence is text of the example, not a link.
    #[test]
    fn finds_links_outside_code() {
        assert_eq!(links(PAGE), [(1, "b.md")]);
    }
}
