//! nginx's configuration language: directives with words, some with a block.
//!
//! The rules are those of `ngx_conf_read_token`: a quote or `#` is special only at the start of a
//! word, `${` starts a variable, and a backslash escapes the next character. Blocks of Lua are
//! skipped. Errors name the line and show no word of the file, which may be a secret.

use std::iter::Peekable;
use std::str::Chars;

use anyhow::{bail, ensure};

use super::super::note::Found;

/// The deepest nesting. nginx itself needs six levels.
const DEEPEST: usize = 16;
const UNCLOSED: &str = "the block that opens here is not closed; add a } at its end";

/// A directive: `name args;` or `name args { block }`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Directive {
    pub(super) name: String,
    pub(super) args: Vec<String>,
    pub(super) block: Option<Vec<Directive>>,
    /// `nginx.conf:12`
    pub(super) place: String,
}

impl Directive {
    /// The first word after the name.
    pub(super) fn first(&self) -> &str {
        self.args.first().map_or("", String::as_str)
    }

    /// Its name. A word of another form may be a secret in a damaged file.
    pub(super) fn label(&self) -> &str {
        let fits = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
        if self.name.bytes().all(fits) { &self.name } else { "directive" }
    }

    pub(super) fn found(&self) -> Found {
        Found::new(self.label(), &self.args.join(" "), &self.place)
    }

    /// The directives in its block.
    pub(super) fn inside(&self) -> &[Directive] {
        self.block.as_deref().unwrap_or_default()
    }
}

/// Reads a file. The place of each directive starts with `name`.
pub(super) fn parse(text: &str, name: &str) -> anyhow::Result<Vec<Directive>> {
    let mut reader = Reader { rest: text.chars().peekable(), line: 1, name };
    let directives = reader.block(0)?;
    assert!(reader.rest.peek().is_none(), "a file is read to its end");
    Ok(directives)
}

struct Reader<'a> {
    rest: Peekable<Chars<'a>>,
    line: usize,
    name: &'a str,
}

impl Reader<'_> {
    fn block(&mut self, depth: usize) -> anyhow::Result<Vec<Directive>> {
        let opened = self.line;
        ensure!(
            depth <= DEEPEST,
            "line {opened}: blocks are nested more than {DEEPEST} deep; nginx allows no such file"
        );
        let mut directives = Vec::new();
        loop {
            let (mut words, line, end) = self.words()?;
            assert!(opened <= line && line <= self.line, "a block's lines follow its first");
            let place = format!("{}:{line}", self.name);
            if words.is_empty() {
                match (end, depth) {
                    (None, 0) | (Some('}'), 1..) => return Ok(directives),
                    (None, _) => bail!("line {opened}: {UNCLOSED}"),
                    (Some('}'), _) => bail!("line {line}: a }} closes no block; remove it"),
                    _ => bail!("line {line}: a ; or {{ stands without a directive; remove it"),
                }
            }
            let block = match end {
                Some(';') => None,
                Some('{') if words[0].ends_with("_by_lua_block") => Some(self.skip(line)?),
                Some('{') => Some(self.block(depth + 1)?),
                _ => bail!("line {line}: a directive has no end; add a ; to it"),
            };
            directives.push(Directive { name: words.remove(0), args: words, block, place });
        }
    }

    /// The words up to the next `;`, `{` or `}`, the line of the first, and that character.
    fn words(&mut self) -> anyhow::Result<(Vec<String>, usize, Option<char>)> {
        let (mut words, mut line) = (Vec::new(), self.line);
        loop {
            if words.is_empty() {
                line = self.line;
            }
            match self.next() {
                Some(c) if c.is_ascii_whitespace() => {}
                Some('#') => while self.next().is_some_and(|c| c != '\n') {},
                Some(quote @ ('"' | '\'')) => words.push(self.quoted(quote)?),
                end @ (None | Some(';' | '{' | '}')) => return Ok((words, line, end)),
                Some(c) => words.push(self.word(c)),
            }
        }
    }

    fn word(&mut self, first: char) -> String {
        let mut word = String::new();
        let mut next = Some(first);
        while let Some(c) = next {
            if c == '\\' {
                self.escape(&mut word)
            } else {
                word.push(c)
            }
            let is_variable = word.ends_with('$');
            next = self
                .rest
                .next_if(|&c| !(c.is_ascii_whitespace() || c == ';' || (c == '{' && !is_variable)));
        }
        word
    }

    fn quoted(&mut self, quote: char) -> anyhow::Result<String> {
        let (line, mut word) = (self.line, String::new());
        loop {
            match self.next() {
                None => {
                    bail!("line {line}: the quote that opens here is not closed; add a {quote}")
                }
                Some(c) if c == quote => return Ok(word),
                Some('\\') => self.escape(&mut word),
                Some(c) => word.push(c),
            }
        }
    }

    /// Reads the character after a backslash. The backslash stays if it escapes nothing.
    fn escape(&mut self, word: &mut String) {
        match self.next() {
            Some(c @ ('"' | '\'' | '\\')) => word.push(c),
            Some('t') => word.push('\t'),
            Some('r') => word.push('\r'),
            Some('n') => word.push('\n'),
            Some(c) => word.extend(['\\', c]),
            None => word.push('\\'),
        }
    }

    /// Skips a block of Lua up to its closing brace.
    fn skip(&mut self, line: usize) -> anyhow::Result<Vec<Directive>> {
        let mut open = 1_usize;
        while open > 0 {
            match self.next() {
                Some('{') => open += 1,
                Some('}') => open -= 1,
                Some(_) => {}
                None => bail!("line {line}: {UNCLOSED}"),
            }
        }
        Ok(Vec::new())
    }

    fn next(&mut self) -> Option<char> {
        let c = self.rest.next()?;
        self.line += usize::from(c == '\n');
        Some(c)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flat(directives: &[Directive]) -> Vec<String> {
        let mut all = Vec::new();
        for d in directives {
            all.push(format!("{} {} {:?}", d.place, d.name, d.args));
            all.extend(flat(d.block.as_deref().unwrap_or_default()));
        }
        all
    }

    // Words, quotes, escapes, comments and variables are read by nginx's own rules.
    #[test]
    fn words() {
        let text = "a b;\nc 'd e' \"f\\\"g\" h#i; # j;\nk ${l}m o \\;p\\\\ {\n  x y}z; }\nq_by_lua_block { if { a } }\nr\n s;";
        let read = parse(text, "f").expect("is nginx's");
        assert_eq!(
            flat(&read),
            [
                "f:1 a [\"b\"]",
                "f:2 c [\"d e\", \"f\\\"g\", \"h#i\"]",
                "f:3 k [\"${l}m\", \"o\", \"\\\\;p\\\\\"]",
                "f:4 x [\"y}z\"]",
                "f:5 q_by_lua_block []",
                "f:6 r [\"s\"]",
            ]
        );
    }

    // A file that nginx refuses gives an error with the line, at any nesting, and without its
    // words.
    #[test]
    fn errors() {
        for (text, part) in [
            ("a {\n b c;\n", "line 1: the block that opens here is not closed"),
            ("a b\n", "line 1: a directive has no end"),
            ("a { b }", "line 1: a directive has no end"),
            ("a;\n}", "line 2: a } closes no block"),
            (";", "line 1: a ; or { stands without"),
            ("a 'b;\n", "line 1: the quote that opens here"),
            ("a_by_lua_block { { }", "line 1: the block that opens here"),
            (&"s3cret { ".repeat(100_000), "blocks are nested more than 16 deep"),
        ] {
            let error = parse(text, "f").expect_err("is none").to_string();
            assert!(error.contains(part) && !error.contains("s3cret"), "{part}: {error}");
        }
    }
}
