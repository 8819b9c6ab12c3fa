//! The text of an expression as a tree.
//!
//! Precedence climbing (Pratt 1973), with the operators' usual order: `or`, `and`, `not`,
//! comparisons, `+ -`, `* /`, unary minus. Comparisons do not chain.

use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

use super::figures::FIGURES;
use super::ops::{Binary, FUNCTIONS, Function};
use crate::policy::TextError;

/// Longest text, in bytes.
const LONGEST: usize = 2000;
/// First signs of operators of other languages, and ours.
const OTHERS: [(&str, &str); 6] = [
    ("=", "=="),
    ("&", "and"),
    ("|", "or"),
    ("!", "not"),
    ("^", "pow(a, b)"),
    ("?", "if(condition, a, b)"),
];
/// Deepest nesting.
const DEEPEST: u32 = 32;

/// A part of an expression.
pub(super) struct Node {
    /// Its bytes in the text, with its parentheses.
    pub(super) at: Range<usize>,
    pub(super) kind: Kind,
}

pub(super) enum Kind {
    Number(f32),
    /// By its place in [`FIGURES`].
    Figure(u8),
    Negative(Box<Node>),
    Not(Box<Node>),
    Binary(Binary, Box<Node>, Box<Node>),
    Call(Function, Vec<Node>),
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Token<'a> {
    Number(f32),
    Word(&'a str),
    Sign(&'a str),
    End,
}

struct Parser<'a> {
    text: &'a str,
    token: Token<'a>,
    /// The token's bytes.
    at: Range<usize>,
    /// The end of the token before.
    end: usize,
    depth: u32,
}

/// Parses the whole text.
pub(super) fn parse(text: &str) -> Result<Node, TextError> {
    if text.len() > LONGEST {
        let message = format!("the text has {} bytes; use at most {LONGEST}", text.len());
        return Err(error(text, LONGEST, message));
    }
    let mut parser = Parser { text, token: Token::End, at: 0..0, end: 0, depth: 0 };
    parser.next()?;
    let node = parser.expression(0)?;
    match parser.token {
        Token::End => Ok(node),
        _ => Err(parser.expected("an operator such as + or the end")),
    }
}

/// A mistake at a byte of the text.
pub(super) fn error(text: &str, at: usize, message: String) -> TextError {
    let before = text.char_indices().take_while(|(byte, _)| *byte < at).count();
    TextError { character: before + 1, message, word: String::new(), known: Vec::new() }
}

impl<'a> Parser<'a> {
    fn expression(&mut self, least: u8) -> Result<Node, TextError> {
        self.depth += 1;
        if self.depth > DEEPEST {
            let message = format!("parts are nested deeper than {DEEPEST}; simplify");
            return Err(error(self.text, self.at.start, message));
        }
        let mut left = self.operand()?;
        while let Some(operator) = Binary::of(self.word()) {
            let power = operator.power();
            if power < least {
                break;
            }
            self.next()?;
            let right = self.expression(power + 1)?;
            let at = left.at.start..right.at.end;
            left = Node { at, kind: Kind::Binary(operator, Box::new(left), Box::new(right)) };
            if operator.compares() && Binary::of(self.word()).is_some_and(|next| next.compares()) {
                let message = "comparisons do not chain; join two of them with `and`".to_owned();
                return Err(error(self.text, self.at.start, message));
            }
        }
        self.depth -= 1;
        Ok(left)
    }

    fn operand(&mut self) -> Result<Node, TextError> {
        let start = self.at.start;
        let token = self.token;
        let kind = match token {
            Token::Number(number) => {
                self.next()?;
                Kind::Number(number)
            }
            Token::Sign("-") => {
                self.next()?;
                Kind::Negative(Box::new(self.expression(Binary::NEGATIVE)?))
            }
            Token::Word("not") => {
                self.next()?;
                Kind::Not(Box::new(self.expression(Binary::NOT)?))
            }
            Token::Sign("(") => {
                self.next()?;
                let node = self.expression(0)?;
                self.take(")", "`)`")?;
                node.kind
            }
            Token::Word(word) if Binary::of(word).is_none() => self.name(word)?,
            _ => return Err(self.expected("a number, a figure or `(`")),
        };
        Ok(Node { at: start..self.end, kind })
    }

    /// A figure, or a function with its arguments.
    fn name(&mut self, word: &'a str) -> Result<Kind, TextError> {
        let start = self.at.start;
        self.next()?;
        let figure = FIGURES.iter().position(|figure| figure.name == word);
        let function = FUNCTIONS.iter().find(|function| function.name == word);
        let is_call = self.token == Token::Sign("(");
        let known = match (figure, function) {
            (Some(at), _) if !is_call => return Ok(Kind::Figure(at as u8)),
            (_, Some(known)) if is_call => known,
            (Some(_), _) => {
                let message = format!("`{word}` is a figure; write it without arguments");
                return Err(error(self.text, start, message));
            }
            (None, Some(known)) => {
                let message = format!("`{word}` is a function; write {}", known.form);
                return Err(error(self.text, start, message));
            }
            (None, None) => {
                let names = match is_call {
                    true => FUNCTIONS.iter().map(|f| f.name).collect(),
                    false => FIGURES.iter().map(|f| f.name).collect(),
                };
                return Err(self.unknown(start, word, names));
            }
        };
        self.next()?;
        let mut arguments = Vec::new();
        if self.token != Token::Sign(")") {
            arguments.push(self.expression(0)?);
            while self.token == Token::Sign(",") {
                self.next()?;
                arguments.push(self.expression(0)?);
            }
        }
        self.take(")", "`,` or `)`")?;
        let given = arguments.len();
        if !known.arity.contains(&given) {
            let message = format!(
                "`{word}` has {given} argument{}; write {}",
                if given == 1 { "" } else { "s" },
                known.form
            );
            return Err(error(self.text, start, message));
        }
        Ok(Kind::Call(known.function, arguments))
    }

    fn unknown(&self, at: usize, word: &str, known: Vec<&'static str>) -> TextError {
        let message = format!("`{word}` is unknown");
        TextError { word: word.to_owned(), known, ..error(self.text, at, message) }
    }

    /// The token as a word or sign; empty for a number and at the end.
    fn word(&self) -> &'a str {
        match self.token {
            Token::Word(word) | Token::Sign(word) => word,
            Token::Number(_) | Token::End => "",
        }
    }

    fn take(&mut self, sign: &str, wanted: &str) -> Result<(), TextError> {
        match self.token {
            Token::Sign(found) if found == sign => self.next(),
            _ => Err(self.expected(wanted)),
        }
    }

    fn expected(&self, wanted: &str) -> TextError {
        let found = match &self.text[self.at.clone()] {
            "" => "the text ends".to_owned(),
            found if found.contains(char::is_control) => {
                format!("`{}` stands", found.escape_debug())
            }
            found => format!("`{found}` stands"),
        };
        error(self.text, self.at.start, format!("{found} where {wanted} should be"))
    }

    /// Reads the next token.
    fn next(&mut self) -> Result<(), TextError> {
        self.end = self.at.end;
        let rest = &self.text[self.end..];
        let start = self.text.len() - rest.trim_start().len();
        let rest = &self.text[start..];
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
        let length = match rest.chars().next() {
            None => 0,
            Some(first) if is_word(first) => {
                number(rest).unwrap_or_else(|| rest.find(|c| !is_word(c)).unwrap_or(rest.len()))
            }
            Some('<' | '>' | '=' | '!') if rest[1..].starts_with('=') => 2,
            Some(first) => first.len_utf8(),
        };
        self.at = start..start + length;
        let found = &rest[..length];
        self.token = match found.chars().next() {
            None => Token::End,
            Some(first) if first.is_ascii_digit() || first == '.' => match found.parse() {
                Ok(number) if f32::is_finite(number) => Token::Number(number),
                Ok(number) if !f32::is_nan(number) => {
                    let message = format!("`{found}` is too large; use at most {:e}", f32::MAX);
                    return Err(error(self.text, start, message));
                }
                _ => {
                    let message = format!("`{found}` is not a number; write it as 0.5 or 1e3");
                    return Err(error(self.text, start, message));
                }
            },
            Some(first) if is_word(first) => Token::Word(found),
            Some(_) if "( ) , + - * / < > <= >= == !=".split(' ').any(|sign| sign == found) => {
                Token::Sign(found)
            }
            Some(_) => {
                let mut wrong = self.expected("a number, a figure or an operator");
                if let Some((_, ours)) = OTHERS.iter().find(|(theirs, _)| *theirs == found) {
                    wrong.message.push_str(&format!("; write `{ours}`"));
                }
                return Err(wrong);
            }
        };
        Ok(())
    }
}

/// The length of the number at the start of a text, with its exponent; `None` without one.
fn number(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let digits = |from: usize| bytes[from..].iter().take_while(|b| b.is_ascii_digit()).count();
    let whole = digits(0);
    let mut end = whole;
    if bytes.get(end) == Some(&b'.') {
        end += 1 + digits(end + 1);
    }
    let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
    let is_power = matches!(bytes.get(end), Some(b'e' | b'E')) && end > 0;
    if is_power && digits((end + 1 + sign).min(bytes.len())) > 0 {
        end += 1 + sign + digits(end + 1 + sign);
    }
    // Letters directly behind it belong to it, so that `5ms` is reported as a whole.
    let is_word = |b: &&u8| b.is_ascii_alphanumeric() || **b == b'_' || **b == b'.';
    let behind = bytes[end..].iter().take_while(is_word).count();
    (end > 0).then_some(end + behind)
}
