//! nginx's configuration language: directives with words, some with a block.
//!
//! The rules are those of `ngx_conf_read_token`: a quote or `#` is special only at the start of a
//! word, `${` starts a variable, and a backslash escapes the next character. Blocks of Lua are
//! skipped. Errors name the line and show no word of the file, which may be a secret.

use anyhow::{bail, ensure};

/// The deepest nesting. nginx itself needs six levels.
const DEEPEST: usize = 16;

/// A directive: `name args;` or `name args { block }`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Directive {
    pub(super) name: String,
    pub(super) args: Vec<String>,
    pub(super) block: Option<Vec<Directive>>,
    /// `nginx.conf:12`
    pub(super) place: String,
}

/// Reads a file. The place of each directive starts with `name`.
pub(super) fn parse(text: &str, name: &str) -> anyhow::Result<Vec<Directive>> {
    let mut reader = Reader { rest: text.chars().collect(), at: 0, line: 1, name };
    let directives = reader.block(0)?;
    Ok(directives)
}

/// How a word ended.
#[derive(PartialEq, Eq)]
enum End {
    Semicolon,
    Open,
    Close,
    File,
}

struct Reader<'a> {
    rest: Vec<char>,
    at: usize,
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
            let block = match end {
                End::Close if words.is_empty() && depth > 0 => return Ok(directives),
                End::File if words.is_empty() && depth == 0 => return Ok(directives),
                End::File if words.is_empty() => {
                    bail!(
                        "line {opened}: the block that opens here is not closed; add a }} at its end"
                    )
                }
                End::Close if words.is_empty() => {
                    bail!("line {line}: a }} closes no block; remove it")
                }
                End::Close | End::File => {
                    bail!("line {line}: a directive has no end; add a ; to it")
                }
                End::Semicolon | End::Open if words.is_empty() => {
                    bail!("line {line}: a ; or {{ stands without a directive; remove it")
                }
                End::Semicolon => None,
                End::Open if words[0].ends_with("_by_lua_block") => {
                    self.skip(line)?;
                    Some(Vec::new())
                }
                End::Open => Some(self.block(depth + 1)?),
            };
            let place = format!("{}:{line}", self.name);
            directives.push(Directive { name: words.remove(0), args: words, block, place });
        }
    }

    /// The words up to the next `;`, `{` or `}`, and the line of the first.
    fn words(&mut self) -> anyhow::Result<(Vec<String>, usize, End)> {
        let mut words = Vec::new();
        let mut line = self.line;
        loop {
            let Some(c) = self.next() else { return Ok((words, line, End::File)) };
            if words.is_empty() {
                line = self.line;
            }
            match c {
                c if c.is_ascii_whitespace() => {}
                '#' => while self.next().is_some_and(|c| c != '\n') {},
                ';' => return Ok((words, line, End::Semicolon)),
                '{' => return Ok((words, line, End::Open)),
                '}' => return Ok((words, line, End::Close)),
                quote @ ('"' | '\'') => words.push(self.quoted(quote)?),
                _ => {
                    self.at -= 1;
                    words.push(self.word());
                }
            }
        }
    }

    fn word(&mut self) -> String {
        let mut word = String::new();
        while let Some(&c) = self.rest.get(self.at) {
            let is_variable = c == '{' && word.ends_with('$');
            if c.is_ascii_whitespace() || c == ';' || (c == '{' && !is_variable) {
                break;
            }
            self.at += 1;
            if c == '\\' { self.escape(&mut word) } else { word.push(c) }
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
    fn skip(&mut self, line: usize) -> anyhow::Result<()> {
        let mut open = 1_usize;
        while open > 0 {
            match self.next() {
                Some('{') => open += 1,
                Some('}') => open -= 1,
                Some(_) => {}
                None => bail!(
                    "line {line}: the block that opens here is not closed; add a }} at its end"
                ),
            }
        }
        Ok(())
    }

    fn next(&mut self) -> Option<char> {
        let c = *self.rest.get(self.at)?;
        self.at += 1;
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
