//! A YAML file as a tree with line numbers.

use super::path::{Path, Step};

/// One value.
#[derive(Clone, Debug)]
pub(super) struct Node {
    /// The line where it starts, from 1.
    pub(super) line: usize,
    pub(super) kind: NodeKind,
}

#[derive(Clone, Debug)]
pub(super) enum NodeKind {
    /// No value.
    Empty,
    /// A single value.
    Text { text: String, quoted: bool },
    /// Entries with their places in the file, which stay when another entry is taken out.
    List(Vec<(usize, Node)>),
    /// Fields in the order of the file.
    Section(Vec<Field>),
}

/// A field of a section.
#[derive(Clone, Debug)]
pub(super) struct Field {
    pub(super) name: String,
    /// The line of the name.
    pub(super) line: usize,
    pub(super) value: Node,
    /// It comes from `<<: *anchor`, so the section may give another value.
    pub(super) merged: bool,
}

impl Node {
    /// A single value that is not in the file.
    pub(super) fn text(line: usize, text: &str) -> Node {
        Node { line, kind: NodeKind::Text { text: text.to_owned(), quoted: false } }
    }

    /// The value of a field.
    pub(super) fn field(&self, name: &str) -> Option<&Field> {
        let NodeKind::Section(fields) = &self.kind else { return None };
        fields.iter().find(|field| field.name == name)
    }

    /// The line of the deepest part of a path that the file has.
    pub(super) fn line_of(&self, path: &Path) -> Option<usize> {
        let (mut node, mut line) = (self, path.0.is_empty().then_some(self.line));
        let mut rest = &path.0[..];
        while let Some(step) = rest.first() {
            let next = match (step, &node.kind) {
                (Step::Field(_), _) => node.named_by(rest),
                (Step::Entry(place), NodeKind::List(entries)) => {
                    let entry = entries.iter().find(|(at, _)| at == place);
                    entry.map(|(_, entry)| (1, entry.line, entry))
                }
                _ => None,
            };
            let Some((steps, found, value)) = next else { break };
            assert!(steps > 0, "each turn follows a step of the path");
            (line, node, rest) = (Some(found), value, &rest[steps..]);
        }
        line
    }

    /// The field that the first of these steps name: how many of them, its line and its value. The
    /// dots of a name separate steps, too: `models.llama-3.1-8b.alias`.
    fn named_by(&self, steps: &[Step]) -> Option<(usize, usize, &Node)> {
        let mut name = String::new();
        for (i, step) in steps.iter().enumerate() {
            let Step::Field(part) = step else { break };
            name.push_str(if i == 0 { "" } else { "." });
            name.push_str(part);
            if let Some(field) = self.field(&name) {
                return Some((i + 1, field.line, &field.value));
            }
        }
        None
    }

    /// Takes out the part at a path; false if there is none.
    pub(super) fn take_out(&mut self, path: &Path) -> bool {
        let Some((last, parents)) = path.0.split_last() else { return false };
        let mut node = self;
        for step in parents {
            let next = node.part_mut(step);
            let Some(next) = next else { return false };
            node = next;
        }
        match (last, &mut node.kind) {
            (Step::Field(name), NodeKind::Section(fields)) => {
                let before = fields.len();
                fields.retain(|field| field.name != *name);
                fields.len() < before
            }
            (Step::Entry(place), NodeKind::List(entries)) => {
                let before = entries.len();
                entries.retain(|(at, _)| at != place);
                entries.len() < before
            }
            _ => false,
        }
    }

    fn part_mut(&mut self, step: &Step) -> Option<&mut Node> {
        match (step, &mut self.kind) {
            (Step::Field(name), NodeKind::Section(fields)) => {
                fields.iter_mut().find(|field| field.name == *name).map(|field| &mut field.value)
            }
            (Step::Entry(place), NodeKind::List(entries)) => {
                entries.iter_mut().find(|(at, _)| at == place).map(|(_, entry)| entry)
            }
            _ => None,
        }
    }

    /// A path whose entries count in the list as it is now, as a path whose entries count in the
    /// file.
    pub(super) fn in_file(&self, path: &Path) -> Path {
        let mut steps = Vec::new();
        let mut node = Some(self);
        for step in &path.0 {
            let (step, next) = match (step, node.map(|node| &node.kind)) {
                (Step::Field(name), _) => {
                    let field = node.and_then(|node| node.field(name));
                    (step.clone(), field.map(|field| &field.value))
                }
                (Step::Entry(place), Some(NodeKind::List(entries))) => match entries.get(*place) {
                    Some((at, entry)) => (Step::Entry(*at), Some(entry)),
                    None => (step.clone(), None),
                },
                (Step::Entry(_), _) => (step.clone(), None),
            };
            steps.push(step);
            node = next;
        }
        Path(steps)
    }
}
