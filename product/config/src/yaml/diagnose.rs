//! Finds every mistake of a file that is not a configuration.

use serde::de::DeserializeOwned;

use super::fault::{Fault, Repair};
use super::foreign::{Format, recognise, recognise_text};
use super::node::{Field, Node, NodeKind};
use super::path::{Path, Step};
use super::syntax;
use super::tree::Document;
use crate::problem::Problem;

/// Most mistakes that are reported at once.
const MOST: usize = 100;

/// The mistakes of a file that cannot be read as a `T`: of syntax, or else of shape, together with
/// those that `problems` finds in the rest. Empty if there are none.
pub(crate) fn diagnose<T: DeserializeOwned>(
    yaml: &str,
    format: Format,
    problems: impl FnOnce(&T) -> Vec<String>,
) -> Vec<Problem> {
    let document = match Document::read(yaml) {
        Ok(document) => document,
        Err(found) => return recognise_text(yaml).map_or(found, |text| vec![text.into()]),
    };
    if let Some(problem) = syntax::template(yaml) {
        return vec![problem];
    }
    if let Some(problem) = whole_file(yaml, &document.root, format) {
        return vec![problem];
    }
    let mut repaired = Repaired::new(document);
    let config = repaired.read::<T>();
    let found = config.map(|config| problems(&config)).unwrap_or_default();
    repaired.finish(found)
}

/// A problem of the file as a whole.
fn whole_file(yaml: &str, root: &Node, format: Format) -> Option<Problem> {
    match &root.kind {
        NodeKind::Empty => {
            let example = format.example();
            Some(format!("the file is empty; the shortest one that works is\n{example}").into())
        }
        NodeKind::Text { .. } => {
            let known = recognise_text(yaml).map(Problem::from);
            known.or_else(|| syntax::from_lines(yaml, yaml.lines().count())).or_else(|| {
                let example = format.example();
                let text = "the file is a text without fields; a short file that works is";
                Some(format!("{text}\n{example}").into())
            })
        }
        _ => {
            let known = recognise(root, format).map(Problem::from);
            known.or_else(|| {
                let is_list = matches!(root.kind, NodeKind::List(_)) && format != Format::Replicas;
                is_list.then(|| {
                    let text = "the file is a list; write fields, `name: value`, without dashes";
                    text.to_owned().into()
                })
            })
        }
    }
}

/// A tree that loses its wrong parts one by one, and the mistakes found on the way.
struct Repaired {
    root: Node,
    whole: Node,
    found: Vec<Problem>,
    /// Paths in the file of parts that were taken out or added.
    wrong: Vec<Path>,
    /// Fields at the top that were missing.
    added: Vec<&'static str>,
}

impl Repaired {
    fn new(document: Document) -> Repaired {
        let whole = document.root;
        Repaired {
            root: whole.clone(),
            whole,
            found: [document.twice, document.tags].concat(),
            wrong: Vec::new(),
            added: Vec::new(),
        }
    }

    /// Reads the tree until it is a configuration; none if it cannot become one.
    fn read<T: DeserializeOwned>(&mut self) -> Option<T> {
        loop {
            let fault = match T::deserialize(&self.root) {
                Ok(config) => return Some(config),
                Err(fault) => fault,
            };
            if self.found.len() >= MOST {
                let text = format!("more than {MOST} problems; correct these first");
                self.found.push(text.into());
                return None;
            }
            if !self.repair(&fault) {
                return None;
            }
        }
    }

    /// Reports a fault, and changes the tree so that reading can get past it; false if it cannot.
    fn repair(&mut self, fault: &Fault) -> bool {
        let at = fault.path();
        let Repair::Add(name) = fault.repair else {
            self.report(&at, &fault.text);
            return self.root.take_out(&at);
        };
        let mut field = at.clone();
        field.0.push(Step::Field(name.to_owned()));
        // A field that was taken out is missing now, and reported already.
        self.report(&field, &fault.text);
        if !at.0.is_empty() {
            self.wrong.push(at.clone());
            return self.root.take_out(&at);
        }
        let NodeKind::Section(fields) = &mut self.root.kind else { return false };
        // A text is no help where a list or a section is missing: it is taken out again.
        let tried = self.added.contains(&name) || fields.iter().any(|field| field.name == name);
        let value = Node::text(1, if name == "version" { "1" } else { "" });
        fields.push(Field { name: name.to_owned(), line: 1, value, merged: false });
        self.added.push(name);
        !tried
    }

    fn report(&mut self, path: &Path, text: &str) {
        if !self.wrong.iter().any(|wrong| wrong.overlaps(path)) {
            let line = self.whole.line_of(path);
            let text = if path.0.is_empty() { text.to_owned() } else { format!("{path}: {text}") };
            self.found.push(Problem { line, text });
        }
        self.wrong.push(path.clone());
    }

    /// All mistakes, with those of a configuration that lacks the wrong parts. Problems that follow
    /// from a missing part are left out.
    fn finish(mut self, rest: Vec<String>) -> Vec<Problem> {
        for text in rest {
            let text = self.in_file(&text);
            let path = Path::of_message(&text);
            let section = path.as_ref().and_then(Path::section);
            let follows = self.wrong.iter().any(|wrong| {
                let overlaps = path.as_ref().is_some_and(|path| wrong.overlaps(path));
                let other = wrong.section().filter(|other| Some(*other) != section);
                overlaps || other.is_some_and(|other| has_word(&text, other))
            });
            if !follows {
                let line = path.and_then(|path| self.whole.line_of(&path));
                self.found.push(Problem { line, text });
            }
        }
        self.found.sort_by_key(|problem| problem.line);
        self.found
    }

    /// The message with places in lists as the file counts them.
    fn in_file(&self, text: &str) -> String {
        let words = text.split_inclusive(' ').map(|word| {
            let end = word.rfind(']').map_or(0, |at| at + 1);
            let end = end + word[end..].find([' ', ':', ',', ';', '`']).unwrap_or(0);
            match Path::parse(&word[..end]).filter(|_| word.contains('[')) {
                Some(path) => format!("{}{}", self.root.in_file(&path), &word[end..]),
                None => word.to_owned(),
            }
        });
        words.collect()
    }
}

/// Whether a text has this word.
fn has_word(text: &str, word: &str) -> bool {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').any(|one| one == word)
}
