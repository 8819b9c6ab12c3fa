//! The tokens of a Rust source that become part of the program: no attributes, and no test code.
//!
//! An item under `#[cfg(test)]` is left out, and so is a file that opens with `#![cfg(test)]`. That
//! a whole file belongs to the tests can only be seen from the `mod` line; `cycles` follows those.

use super::tokens::{Kind, Token, tokens};

pub(super) fn code(text: &str) -> Vec<Token<'_>> {
    let all = tokens(text);
    let mut kept = Vec::with_capacity(all.len());
    let mut reader = Reader { tokens: &all, at: 0 };
    while let Some(token) = all.get(reader.at) {
        if reader.at_attribute() {
            reader.attribute();
        } else {
            kept.push(*token);
            reader.at += 1;
        }
    }
    kept
}

/// Keywords in front of a name that is defined.
pub(super) const DEFINES: [&str; 8] =
    ["fn", "struct", "enum", "trait", "type", "const", "static", "macro_rules"];

struct Reader<'a, 'b> {
    tokens: &'b [Token<'a>],
    at: usize,
}

impl<'a> Reader<'a, '_> {
    fn kind(&self, ahead: usize) -> Option<Kind<'a>> {
        self.tokens.get(self.at + ahead).map(|token| token.kind)
    }

    fn is(&self, ahead: usize, mark: char) -> bool {
        self.kind(ahead) == Some(Kind::Mark(mark))
    }

    fn at_attribute(&self) -> bool {
        self.is(0, '#') && (self.is(1, '[') || (self.is(1, '!') && self.is(2, '[')))
    }

    /// Skips an attribute, and the item under it if that is only compiled for tests.
    fn attribute(&mut self) {
        let start = self.at;
        let of_the_file = self.is(1, '!');
        self.at += if of_the_file { 2 } else { 1 };
        self.group();
        let kinds: Vec<_> = self.tokens[start..self.at].iter().map(|token| token.kind).collect();
        let (mark, word) = (Kind::Mark, Kind::Word);
        let of_tests = [mark('['), word("cfg"), mark('('), word("test"), mark(')'), mark(']')];
        if kinds.ends_with(&of_tests) {
            if of_the_file { self.at = self.tokens.len() } else { self.item() }
        }
    }

    /// Skips one bracketed group, which starts here.
    fn group(&mut self) {
        let mut depth = 0;
        while let Some(kind) = self.kind(0) {
            self.at += 1;
            match kind {
                Kind::Mark('(' | '[' | '{') => depth += 1,
                Kind::Mark(')' | ']' | '}') => depth -= 1,
                _ => {}
            }
            if depth <= 0 {
                return;
            }
        }
    }

    /// Skips an item, a statement, a field or an arm with the attributes above it.
    fn item(&mut self) {
        while self.is(0, '#') {
            self.at += 1;
            self.group();
        }
        let mut is_item = false;
        let mut is_import = false;
        while let Some(kind) = self.kind(0) {
            match kind {
                Kind::Mark(';') => return self.at += 1,
                Kind::Mark(',') if !is_item => return self.at += 1,
                Kind::Mark('}' | ')' | ']') => return,
                Kind::Mark('{') if !is_import => return self.group(),
                Kind::Mark('(' | '[' | '{') => self.group(),
                Kind::Word(word) => {
                    is_item |= DEFINES.contains(&word) || ["mod", "impl", "use"].contains(&word);
                    is_import |= word == "use";
                    self.at += 1;
                }
                _ => self.at += 1,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<&str> {
        let word = |token: &Token<'_>| match token.kind {
            Kind::Word(word) => Some(word.to_owned()),
            _ => None,
        };
        let words: Vec<String> = code(text).iter().filter_map(word).collect();
        text.split(|c: char| !c.is_alphanumeric())
            .filter(|word| words.iter().any(|one| one == word))
            .collect()
    }

    // Items, fields and arms that only tests have are left out, with their attributes; the code
    // after them is not.
    #[test]
    fn test_code_is_left_out() {
        let text = "#[a] struct S { #[cfg(test)] no: No, yes: Yes }\n#[cfg(test)]\nuse x::{y, z};\n\
                    #[cfg(test)]\n#[b]\nmod tests { fn f() {} }\nfn g() {}\n";
        assert_eq!(words(text), ["struct", "S", "yes", "Yes", "fn", "fn", "g"]);
        assert_eq!(words("#![cfg(test)]\nfn f() {}\n"), [""; 0]);
        assert_eq!(words("#![no]\nfn f() {}\n"), ["fn", "f"]);
    }
}
