//! Documents, help and messages avoid words that make them hard to read.
//!
//! The list has words and phrases of which every use is a defect in plain technical English: people
//! instead of replicas and requests, archaic forms, private words for common things. It is no
//! grammar checker. A use that is right, such as a quotation, is an exception of its file.
//!
//! Checked are the prose of Markdown files outside code, all comments (of sources, scripts and
//! configurations, and inside code blocks of documents), and the string literals of all crates
//! outside their tests. Comments that follow code on the same line are not checked.

use super::tokens::{Kind, Token, tokens};
use super::{Broken, Rule, at, of};
use crate::house::{File, in_a_tree};
use crate::md;

pub(crate) const RULE: Rule = Rule {
    name: "english",
    holds: "documents, help and messages use plain English",
    run: |house| Ok(broken(&house.files, EXCEPTIONS)),
};

/// Words to avoid, in lower case, with their remedies.
const WORDS: &[(&str, &str)] = &[
    ("nobody", NOUN),
    ("somebody", NOUN),
    ("anybody", NOUN),
    ("everybody", NOUN),
    ("whoever", NOUN),
    ("whomever", NOUN),
    ("no one", NOUN),
    ("anew", "write `again`"),
    ("begun", "write `started`"),
    ("gone on", CONTINUE),
    ("went on", CONTINUE),
    ("goes on with", CONTINUE),
    ("go on with", CONTINUE),
    ("going on with", CONTINUE),
    ("sent on", "write `forwarded`"),
    ("sends on", "write `forwards`"),
    ("send on", "write `forward`"),
    ("passed on", "write `forwarded`"),
    ("passes on", "write `forwards`"),
    ("ended well", "write `succeeded`"),
    ("ends well", "write `succeeds`"),
    ("end well", "write `succeed`"),
    ("ended badly", "write `failed`"),
    ("ends badly", "write `fails`"),
    ("end badly", "write `fail`"),
    ("turned away", "write `refused`"),
    ("taken in", "write `added`"),
    ("on the spot", "write `at once`, or leave it out"),
    ("of no use", "write `unusable`, or say what is wrong"),
    ("tells of", "write `reports`"),
    ("told of", "write `reported`"),
    ("is told", "write `is reported`, or name what sends it"),
    ("are told", "write `are reported`, or name what sends it"),
    ("what comes", NOUN),
    ("what came", NOUN),
    ("what travels", NOUN),
    ("what is held", "write `queued requests`"),
    ("is no name", "write `is not a name`"),
    ("is no number", "write `is not a number`"),
    ("is no file", "write `is not a file`"),
    ("alike", "write `the same`, or `similar`"),
    ("whom", NOUN),
    ("lest", "write `so that ... not`"),
    ("thereby", "write `so`"),
    ("whence", "write `from which`"),
    ("at all the same", "write `still`"),
];
const NOUN: &str = "name the replica, request, client or process";
const CONTINUE: &str = "write `continue`, or `resume`";

/// Files and the words that are right there.
const EXCEPTIONS: &[(&str, &str)] = &[
    // The tables of words to avoid.
    ("STYLE.md", "send on"),
    ("STYLE.md", "what is held"),
];

fn broken(files: &[File], exceptions: &[(&str, &str)]) -> Vec<Broken> {
    let mut unused: Vec<_> = exceptions.to_vec();
    let mut found = Vec::new();
    for file in files {
        for (line, text) in pieces(file) {
            for (word, remedy) in uses(&text) {
                unused.retain(|exception| *exception != (file.path.as_str(), word));
                if !exceptions.contains(&(file.path.as_str(), word)) {
                    let line = line + line_of(&text, word);
                    found.push(at(&file.path, line, format!("`{word}`; {remedy}")));
                }
            }
        }
    }
    let gone = |(path, word): &(&str, &str)| {
        of(*path, format!("has no `{word}` any more; take the exception off the list"))
    };
    found.extend(unused.iter().map(gone));
    found
}

/// The checked texts of a file, with their lines.
fn pieces(file: &File) -> Vec<(usize, String)> {
    let text = file.text.as_deref().unwrap_or_default();
    if file.path.ends_with(".md") {
        let mut pieces = md::prose(text);
        pieces.extend(comments(md::fenced(text), "#"));
        return pieces;
    }
    let name = file.path.rsplit('/').next().unwrap_or_default();
    let mark = match name.rsplit('.').next().unwrap_or_default() {
        "rs" | "proto" => "//",
        "yaml" | "yml" | "toml" | "sh" | "py" | "x" | "run" => "#",
        _ => return Vec::new(),
    };
    let mut pieces = comments((1..).zip(text.lines()), mark);
    pieces.extend(messages(&file.path, text));
    pieces
}

/// The comments that fill their lines, outside backticks; those on lines that follow each other are
/// one text.
fn comments<'a>(
    lines: impl IntoIterator<Item = (usize, &'a str)>,
    mark: &str,
) -> Vec<(usize, String)> {
    let mut found: Vec<(usize, String)> = Vec::new();
    let mut last = 0;
    for (number, line) in lines {
        let Some(comment) = line.trim_start().strip_prefix(mark) else { continue };
        let outside: Vec<&str> =
            comment.trim_start_matches(['/', '!']).split('`').step_by(2).collect();
        let outside = outside.join("`");
        match found.last_mut().filter(|_| last + 1 == number) {
            Some((_, text)) => {
                text.push('\n');
                text.push_str(&outside);
            }
            None => found.push((number, outside)),
        }
        last = number;
    }
    found
}

/// The string literals of a crate's source, without its tests.
fn messages(path: &str, text: &str) -> Vec<(usize, String)> {
    let inner = path.split_once("/src/").filter(|_| in_a_tree(path));
    let is_test = |path: &str| path.ends_with("tests.rs") || path.contains("tests/");
    if !path.ends_with(".rs") || inner.is_none_or(|(_, path)| is_test(path)) {
        return Vec::new();
    }
    let text = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
    let literal = |token: Token<'_>| match token.kind {
        Kind::Text(text) => Some((token.line, text.to_owned())),
        _ => None,
    };
    tokens(text).into_iter().filter_map(literal).collect()
}

/// The line in a text where a phrase starts, from 0; the first line if that is unclear.
fn line_of(text: &str, word: &str) -> usize {
    let start = word.split(' ').next().unwrap_or(word);
    text.lines().position(|line| line.to_lowercase().contains(start)).unwrap_or(0)
}

/// The words to avoid in a text. Line breaks inside a phrase count as one space.
fn uses(text: &str) -> impl Iterator<Item = (&'static str, &'static str)> {
    let spaced = text.replace("\\\n", " ").to_lowercase();
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let text = words.join(" ");
    let is_letter = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    WORDS.iter().copied().filter(move |(word, _)| {
        text.match_indices(word).any(|(start, _)| {
            let before = text[..start].chars().next_back();
            let right = word.starts_with("is no ") && text[..start].ends_with("there ");
            !right && !is_letter(before) && !is_letter(text[start + word.len()..].chars().next())
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(path: &str, text: &str) -> Vec<String> {
        let found = broken(&[File::of(path, text)], &[]);
        found.into_iter().map(|one| one.what.split(';').next().unwrap().to_owned()).collect()
    }

    // Prose is checked, across line breaks and in any case; code in a document is not, but its
    // comments are.
    #[test]
    fn documents() {
        let text = "Nobody is sent\non. `nobody`\n```\nnobody\n# anew\n```\nwhoever";
        assert_eq!(words("docs/a.md", text), ["`nobody`", "`sent on`", "`whoever`", "`anew`"]);
    }

    // Messages and comments are checked, comments across their lines; names and code in backticks
    // are not, and messages of tests are not.
    #[test]
    fn sources() {
        let text = "//! Sent\n//! on.\n// `nobody`\nfn nobody() { f(\"ends\\\n  well\") }\n\
                    #[cfg(test)]\nmod tests { const A: &str = \"nobody\"; }\n";
        assert_eq!(words("product/wire/src/a.rs", text), ["`sent on`", "`ends well`"]);
        assert_eq!(words("product/cli/src/certs/tests.rs", text), ["`sent on`"]);
        assert_eq!(words("product/cli/tests/all/a.rs", text), ["`sent on`"]);
    }

    // Comments of scripts and configurations are checked; their values are not.
    #[test]
    fn scripts() {
        assert_eq!(words("x", "# anew\necho whoever\n"), ["`anew`"]);
        assert_eq!(words("experiments/a.yaml", "a: 1\n  # begun\nb: anew\n"), ["`begun`"]);
    }

    // Part of a longer word is another word.
    #[test]
    fn longer_words() {
        assert_eq!(
            words("a.md", "likewise renewal, Lesterly, consent only; there is no file"),
            [""; 0]
        );
    }

    // An exception is for one word in one file, and goes when the word does.
    #[test]
    fn exceptions() {
        let files = [File::of("a.md", "nobody anew"), File::of("b.md", "nobody")];
        let found = broken(&files, &[("a.md", "nobody"), ("b.md", "anew")]);
        let places: Vec<_> = found.iter().map(|one| one.place.as_str()).collect();
        assert_eq!(places, ["a.md:1", "b.md:1", "b.md"]);
    }
}
