//! Builds the tree of a file from the parser's events.

use std::collections::HashMap;

use granit_parser::{Event, Options, Parser, ScalarStyle, ScanError, Span, Tag};

use super::node::{Field, Node, NodeKind};
use super::path::{Path, Step};
use super::syntax;
use crate::problem::Problem;

/// Most values of a file, counting each use of an anchor.
const MOST: usize = 50_000;

/// A file that is valid YAML.
#[derive(Clone, Debug)]
pub(crate) struct Document {
    pub(super) root: Node,
    /// Fields that are given twice; the tree has the first of each.
    pub(super) twice: Vec<Problem>,
    /// Values with tags.
    pub(super) tags: Vec<Problem>,
}

impl Document {
    /// Reads a file.
    ///
    /// # Errors
    /// Mistakes of syntax.
    pub(crate) fn read(yaml: &str) -> Result<Document, Vec<Problem>> {
        let mut options = Options::default();
        options.emit_comments = false;
        let mut builder = Builder::default();
        let events = Parser::new_from_str_with_options(yaml, options);
        match builder.all(events) {
            Ok(()) => Ok(builder.finish()),
            Err(Stop::Scan(error)) => Err(syntax::problems(yaml, &error)),
            Err(Stop::Problem(problem)) => Err(vec![problem]),
        }
    }

    /// Adds the lines of the file to messages that start with the path of a field.
    pub(crate) fn locate(&self, messages: Vec<String>) -> Vec<Problem> {
        messages.into_iter().map(|text| Problem { line: self.line(&text), text }).collect()
    }

    /// Whether the file has a field at its top.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.root.field(name).is_some()
    }

    fn line(&self, message: &str) -> Option<usize> {
        self.root.line_of(&Path::of_message(message)?)
    }
}

/// Other programs read values by tags: `!secret`, `!vault`, `!ENV`. Without that, the name is taken for the value.
fn tagged(line: usize, tag: &Tag) -> Problem {
    let text = format!(
        "the tag `{tag}` has no meaning here; remove it and write the value, or for a secret `${{NAME}}` or `{{file: PATH}}`"
    );
    Problem { line: Some(line), text }
}

enum Stop {
    Scan(ScanError),
    Problem(Problem),
}

/// A list or section that is not closed yet.
struct Open {
    node: Node,
    anchor: usize,
    /// The name of the field whose value comes next, and its line.
    name: Option<(String, usize)>,
}

#[derive(Default)]
struct Builder {
    open: Vec<Open>,
    root: Option<Node>,
    anchors: HashMap<usize, Node>,
    twice: Vec<Problem>,
    tags: Vec<Problem>,
    values: usize,
}

impl Builder {
    fn all<'a>(
        &mut self,
        events: impl Iterator<Item = Result<(Event<'a>, Span), ScanError>>,
    ) -> Result<(), Stop> {
        for event in events {
            let (event, span) = event.map_err(Stop::Scan)?;
            let line = span.start.line();
            if let Some(tag) = event.tag() {
                self.tags.push(tagged(line, tag));
            }
            match event {
                Event::DocumentStart(..) if self.root.is_some() => {
                    let text = "a second document starts here; keep one configuration in a file, \
                                and remove the line `---`";
                    return Err(Stop::Problem(Problem { line: Some(line), text: text.to_owned() }));
                }
                Event::Scalar(text, style, anchor, _) => {
                    let quoted = style != ScalarStyle::Plain;
                    let kind = match &*text {
                        "" | "~" | "null" | "Null" | "NULL" if !quoted => NodeKind::Empty,
                        _ => NodeKind::Text { text: text.into_owned(), quoted },
                    };
                    self.value(Node { line, kind }, anchor)?;
                }
                Event::SequenceStart(_, anchor, _) => {
                    self.start(line, NodeKind::List(vec![]), anchor)
                }
                Event::MappingStart(_, anchor, _) => {
                    self.start(line, NodeKind::Section(vec![]), anchor);
                }
                Event::SequenceEnd | Event::MappingEnd => {
                    if let Some(Open { node, anchor, .. }) = self.open.pop() {
                        self.value(node, anchor)?;
                    }
                }
                Event::Alias(anchor) => {
                    let node = self.copy(anchor, line)?;
                    self.value(node, 0)?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn start(&mut self, line: usize, kind: NodeKind, anchor: usize) {
        assert!(matches!(kind, NodeKind::List(_) | NodeKind::Section(_)), "only these have parts");
        self.open.push(Open { node: Node { line, kind }, anchor, name: None });
    }

    /// The value of an anchor, used on another line.
    fn copy(&mut self, anchor: usize, line: usize) -> Result<Node, Stop> {
        let Some(node) = self.anchors.get(&anchor) else {
            return Ok(Node { line, kind: NodeKind::Empty });
        };
        let values = size(node);
        self.count(values, line)?;
        let kind = self.anchors.get(&anchor).map_or(NodeKind::Empty, |node| node.kind.clone());
        Ok(Node { line, kind })
    }

    fn count(&mut self, values: usize, line: usize) -> Result<(), Stop> {
        self.values += values;
        if self.values <= MOST {
            return Ok(());
        }
        let text = format!("the file has more than {MOST} values; make it smaller");
        Err(Stop::Problem(Problem { line: Some(line), text }))
    }

    /// A complete value: a name, the value of a field, an entry, or the whole file.
    fn value(&mut self, node: Node, anchor: usize) -> Result<(), Stop> {
        self.count(1, node.line)?;
        if anchor > 0 {
            self.anchors.insert(anchor, node.clone());
        }
        let Some(open) = self.open.last_mut() else {
            self.root = Some(node);
            return Ok(());
        };
        match &mut open.node.kind {
            NodeKind::List(entries) => entries.push((entries.len(), node)),
            NodeKind::Section(fields) => match open.name.take() {
                None => open.name = Some((name(&node), node.line)),
                Some((name, _)) if name == "<<" => merge(fields, node),
                Some((name, line)) => {
                    let first = fields.iter().position(|field| field.name == name);
                    match first.map(|at| &mut fields[at]) {
                        Some(first) if !first.merged => {
                            let first = first.line;
                            self.given_twice(&name, line, first);
                        }
                        Some(first) => *first = Field { name, line, value: node, merged: false },
                        None => fields.push(Field { name, line, value: node, merged: false }),
                    }
                }
            },
            NodeKind::Empty | NodeKind::Text { .. } => {}
        }
        Ok(())
    }

    fn given_twice(&mut self, name: &str, line: usize, first: usize) {
        let mut steps = Vec::new();
        for open in &self.open {
            match (&open.node.kind, &open.name) {
                (NodeKind::List(entries), _) => steps.push(Step::Entry(entries.len())),
                (_, Some((name, _))) => steps.push(Step::Field(name.clone())),
                _ => {}
            }
        }
        steps.push(Step::Field(name.to_owned()));
        let path = Path(steps);
        let text =
            format!("{path}: is given on line {first} already; merge the two, or remove one");
        self.twice.push(Problem { line: Some(line), text });
    }

    fn finish(self) -> Document {
        let root = self.root.unwrap_or(Node { line: 1, kind: NodeKind::Empty });
        Document { root, twice: self.twice, tags: self.tags }
    }
}

/// The number of values in a value.
fn size(node: &Node) -> usize {
    1 + match &node.kind {
        NodeKind::List(entries) => entries.iter().map(|(_, entry)| size(entry)).sum(),
        NodeKind::Section(fields) => fields.iter().map(|field| size(&field.value)).sum(),
        NodeKind::Empty | NodeKind::Text { .. } => 0,
    }
}

/// A field's name. A list or section as a name fits no field.
fn name(node: &Node) -> String {
    match &node.kind {
        NodeKind::Text { text, .. } => text.clone(),
        NodeKind::Empty => "null".to_owned(),
        NodeKind::List(_) => "[...]".to_owned(),
        NodeKind::Section(_) => "{...}".to_owned(),
    }
}

/// Adds the fields of `<<: *anchor` that the section does not have.
fn merge(fields: &mut Vec<Field>, from: Node) {
    match from.kind {
        NodeKind::Section(merged) => {
            for field in merged {
                if !fields.iter().any(|known| known.name == field.name) {
                    fields.push(Field { merged: true, ..field });
                }
            }
        }
        NodeKind::List(entries) => entries.into_iter().for_each(|(_, entry)| merge(fields, entry)),
        NodeKind::Empty | NodeKind::Text { .. } => {}
    }
}
