//! Mistakes of YAML itself, in words for people who do not know its grammar.

use granit_parser::{ErrorKind as Kind, ScanError};

use crate::problem::Problem;

/// Most lines with tabs that are reported one by one.
const TABS: usize = 10;

/// The mistakes behind an error of the parser, which stops at the first.
pub(super) fn problems(yaml: &str, error: &ScanError) -> Vec<Problem> {
    let tabs: Vec<Problem> = tabs(yaml).take(TABS).collect();
    if !tabs.is_empty() {
        return tabs;
    }
    let line = error.marker().line().max(1);
    if let Some(problem) = from_lines(yaml, line) {
        return vec![problem];
    }
    vec![Problem { line: Some(line), text: text(error.kind()) }]
}

/// Lines that a tab indents.
fn tabs(yaml: &str) -> impl Iterator<Item = Problem> {
    let indent = |line: &str| line.len() - line.trim_start_matches([' ', '\t']).len();
    let has_tab = move |line: &str| line[..indent(line)].contains('\t') && !line.trim().is_empty();
    (1..).zip(yaml.lines()).filter(move |(_, line)| has_tab(line)).map(|(line, _)| Problem {
        line: Some(line),
        text: "a tab indents this line; use spaces instead".to_owned(),
    })
}

/// Mistakes that show in the lines up to the one where the parser failed.
pub(super) fn from_lines(yaml: &str, last: usize) -> Option<Problem> {
    let lines = || (1..=last).zip(yaml.lines());
    let at = |line, text: String| Some(Problem { line: Some(line), text });
    if let Some(problem) = template(yaml) {
        return Some(problem);
    }
    if let Some((line, name, value)) = lines().find_map(|(i, line)| {
        let (name, value) = glued(line)?;
        Some((i, name, value))
    }) {
        return at(line, format!("{name}: needs a space after the colon; write `{name}: {value}`"));
    }
    let (_, text) = lines().last()?;
    if text.split([' ', '[', ',', '{']).any(|word| matches!(word, "*" | "*]" | "*}")) {
        let text = "`*` has a meaning in YAML; write it in quotes, `\"*\"`";
        return at(last, text.to_owned());
    }
    let open = lines().filter_map(|(line, text)| Some((line, open(text)?))).last();
    if let Some((line, mark)) = open {
        let text = match mark {
            '[' | '{' => format!("`{mark}` is not closed; add `{}`", closing(mark)),
            _ => format!("a text starts with `{mark}` and does not end with it; add it at the end"),
        };
        return at(line, text);
    }
    misaligned(yaml, last).and_then(|text| at(last, text))
}

/// The first line with a placeholder of a template, which was not rendered.
pub(super) fn template(yaml: &str) -> Option<Problem> {
    let (line, _) = (1..).zip(yaml.lines()).find(|(_, text)| is_template(text))?;
    let text = "`{{` belongs to a template; render the template first, and check its output";
    Some(Problem { line: Some(line), text: text.to_owned() })
}

/// The quote or bracket with which a value starts, if the line does not close it.
fn open(line: &str) -> Option<char> {
    let line = line.split(" #").next().unwrap_or(line).trim_end();
    let value = line.split_once(": ").map_or(line, |(_, value)| value);
    let value = value.trim_start().trim_start_matches("- ");
    let mark = value.chars().next().filter(|mark| ['"', '\'', '[', '{'].contains(mark))?;
    let is_closed = match mark {
        '[' | '{' => value.matches(closing(mark)).count() >= value.matches(mark).count(),
        quote => value.matches(quote).count().is_multiple_of(2),
    };
    (!is_closed).then_some(mark)
}

/// The message about a line that starts at a column where no line above starts.
fn misaligned(yaml: &str, last: usize) -> Option<String> {
    /// The column of the text after any dashes, from 1.
    fn column(line: &str) -> usize {
        1 + line.len() - line.trim_start_matches([' ', '-']).len()
    }
    let counts = |line: &&str| !line.trim().is_empty() && !line.trim_start().starts_with('#');
    let mut above: Vec<&str> = yaml.lines().take(last).collect();
    let line = above.pop().filter(counts)?;
    let above: Vec<usize> = above.into_iter().filter(counts).map(column).collect();
    let (here, before) = (column(line), *above.last()?);
    (!above.contains(&here)).then(|| {
        format!(
            "starts at column {here}, and the line above at column {before}; start all fields of a section at the same column"
        )
    })
}

fn is_template(line: &str) -> bool {
    !line.trim_start().starts_with('#') && line.contains("{{") && line.contains("}}")
}

/// `name:value`, in which a space is missing. The value is shown if it is a number: others may be
/// secrets.
fn glued(line: &str) -> Option<(&str, &str)> {
    let line = line.trim().trim_start_matches("- ");
    let (name, value) = line.split_once(':')?;
    let is_name = |c: char| c.is_ascii_lowercase() || c == '_';
    let fits = !name.is_empty() && name.chars().all(is_name);
    let is_glued = !value.is_empty() && !value.starts_with([' ', '\t', '/']);
    let shown = if value.bytes().all(|b| b.is_ascii_digit()) { value } else { "..." };
    (fits && is_glued).then_some((name, shown))
}

/// A mistake and its remedy.
fn text(kind: &Kind) -> String {
    match kind {
        Kind::UnclosedQuotedScalar | Kind::UnexpectedEof => {
            "a quote is not closed; close it, or remove the quote that opens the text".to_owned()
        }
        Kind::UnclosedFlowCollection { open } => {
            format!("`{open}` is not closed; add `{}`", closing(*open))
        }
        Kind::UnexpectedEofFlowSequence | Kind::ExpectedFlowSequenceSeparator => {
            "`[` is not closed, or a comma is missing; add `]`, or the comma".to_owned()
        }
        Kind::UnexpectedEofFlowMapping
        | Kind::UnexpectedEofImplicitFlowMapping
        | Kind::ExpectedFlowMappingSeparator => {
            "`{` is not closed, or a comma is missing; add `}`, or the comma".to_owned()
        }
        Kind::MismatchedFlowCollectionEnd { open, close } => {
            format!("`{open}` is closed by `{close}`; write `{}`", closing(*open))
        }
        Kind::MisplacedFlowCollectionEnd => {
            "a closing bracket has no opening one; remove it, or add the opening one".to_owned()
        }
        Kind::UnexpectedCharacter { character } => {
            format!("a value cannot start with `{character}`; put the value in quotes")
        }
        Kind::UnknownAnchor => {
            "a value that starts with `*` refers to an anchor, and there is none of this name; \
             put the value in quotes"
                .to_owned()
        }
        Kind::MissingAnchorOrAliasName => {
            "a value cannot start with `*` or `&`; put the value in quotes".to_owned()
        }
        Kind::MappingValueNotAllowed | Kind::MappingKeyNotAllowed => {
            "a colon is in the wrong place; check the indentation of this line and the one \
             above, and put a value that contains `: ` in quotes"
                .to_owned()
        }
        Kind::SimpleKeyExpected | Kind::InvalidSimpleKey => {
            "this line is neither `name: value` nor `- entry`; add the colon or the dash".to_owned()
        }
        Kind::TabNotAllowed
        | Kind::TabInBlockIndentation
        | Kind::TabInIndentation
        | Kind::TabInPlainScalar
        | Kind::TabAtBlockScalarStart => "a tab is not allowed here; use spaces".to_owned(),
        Kind::RecursionLimitExceeded => {
            "brackets or indentation are nested too deeply; remove levels".to_owned()
        }
        Kind::InvalidTrailingDoubleQuotedScalar | Kind::InvalidTrailingSingleQuotedScalar => {
            "text follows a closing quote; move it inside the quotes, or remove it".to_owned()
        }
        Kind::UnknownQuotedScalarEscape
        | Kind::InvalidQuotedScalarHexEscape
        | Kind::InvalidUnicodeEscape => {
            "`\\` has a meaning in double quotes; use single quotes".to_owned()
        }
        _ => "is not valid YAML; check the indentation, quotes and brackets of this line and of \
              the one above"
            .to_owned(),
    }
}

fn closing(open: char) -> char {
    if open == '[' { ']' } else { '}' }
}
