//! Splits Rust source into the few kinds of tokens that the rules need.
//!
//! Comments are left out, and strings, numbers and lifetimes become one token each, so that their
//! contents are not mistaken for paths.

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Kind<'a> {
    /// A keyword or an identifier, without the `r#` of a raw one.
    Word(&'a str),
    /// `::`
    Colons,
    Mark(char),
    /// A string with its quotes.
    Text(&'a str),
    /// A character, a number or a lifetime.
    Literal,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Token<'a> {
    pub(super) line: usize,
    pub(super) kind: Kind<'a>,
}

pub(super) fn tokens(text: &str) -> Vec<Token<'_>> {
    let mut found = Vec::new();
    let (mut rest, mut line) = (text, 1);
    while let Some(first) = rest.chars().next() {
        let (length, kind) = token(rest, first);
        if let Some(kind) = kind {
            found.push(Token { line, kind });
        }
        line += rest[..length].matches('\n').count();
        rest = &rest[length..];
    }
    found
}

/// The length of the first token, and its kind if it counts.
fn token(rest: &str, first: char) -> (usize, Option<Kind<'_>>) {
    if first.is_whitespace() {
        (rest.find(|c: char| !c.is_whitespace()).unwrap_or(rest.len()), None)
    } else if rest.starts_with("//") {
        (rest.find('\n').unwrap_or(rest.len()), None)
    } else if rest.starts_with("/*") {
        (block_comment(rest), None)
    } else if let Some(length) = string(rest) {
        (length, Some(Kind::Text(&rest[..length])))
    } else if first == '\'' {
        (quote(rest), Some(Kind::Literal))
    } else if first.is_alphabetic() || first == '_' {
        let start = if rest.starts_with("r#") { 2 } else { 0 };
        let end = start + word(&rest[start..]);
        (end, Some(Kind::Word(&rest[start..end])))
    } else if first.is_ascii_digit() {
        (word(rest), Some(Kind::Literal))
    } else if rest.starts_with("::") {
        (2, Some(Kind::Colons))
    } else {
        (first.len_utf8(), Some(Kind::Mark(first)))
    }
}

fn word(rest: &str) -> usize {
    rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len())
}

/// Block comments nest.
fn block_comment(rest: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < rest.len() {
        if rest[at..].starts_with("/*") {
            (depth, at) = (depth + 1, at + 2);
        } else if rest[at..].starts_with("*/") {
            (depth, at) = (depth - 1, at + 2);
            if depth == 0 {
                return at;
            }
        } else {
            at += rest[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    rest.len()
}

/// The length of a string of any kind, if one starts here.
fn string(rest: &str) -> Option<usize> {
    // Most tokens are none, and the rest takes ten times as long.
    if !rest.starts_with(['"', 'b', 'c', 'r']) {
        return None;
    }
    let begins = |prefix: &&str| {
        let Some(after) = rest.strip_prefix(prefix) else { return false };
        let opened = after.trim_start_matches('#');
        opened.starts_with('"') && (prefix.ends_with('r') || opened.len() == after.len())
    };
    let prefix = ["br", "cr", "b", "c", "r", ""].into_iter().find(begins)?;
    let hashes = rest[prefix.len()..].find('"')?;
    let start = prefix.len() + hashes + 1;
    if prefix.ends_with('r') {
        let end = format!("\"{}", "#".repeat(hashes));
        return Some(rest[start..].find(&end).map_or(rest.len(), |at| start + at + end.len()));
    }
    Some(closing(rest, start, '"'))
}

/// The position after the quote that closes the one opened at `start`.
fn closing(rest: &str, start: usize, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in rest[start..].char_indices() {
        if !escaped && c == quote {
            return start + at + 1;
        }
        escaped = !escaped && c == '\\';
    }
    rest.len()
}

/// A character or a lifetime: `'a'` closes right after one character, `'a` does not.
fn quote(rest: &str) -> usize {
    let mut after = rest[1..].chars();
    match (after.next(), after.next()) {
        (Some('\\'), _) => closing(rest, 1, '\''),
        (Some(c), Some('\'')) => 2 + c.len_utf8(),
        _ => 1 + word(&rest[1..]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &'static str) -> Vec<(usize, &'static str)> {
        let word = |token: &Token<'static>| match token.kind {
            Kind::Word(word) => Some((token.line, word)),
            _ => None,
        };
        tokens(text).iter().filter_map(word).collect()
    }

    // Only words of the program count, each with its line.
    #[test]
    fn leaves_out_comments_and_strings() {
        let text = "a // no\n/* no /* no */ no */ b \"no \\\" no\" r#\"no \" no\"# b\"no\"\n\
                    c 'n' '\\'' &'no d r#type 1_no";
        assert_eq!(words(text), [(1, "a"), (2, "b"), (3, "c"), (3, "d"), (3, "type")]);
    }

    // A path is words and colons; one colon is a mark.
    #[test]
    fn tells_colons_apart() {
        let kinds: Vec<_> = tokens("a::b: c").into_iter().map(|token| token.kind).collect();
        let word = Kind::Word;
        assert_eq!(kinds, [word("a"), Kind::Colons, word("b"), Kind::Mark(':'), word("c")]);
    }
}
