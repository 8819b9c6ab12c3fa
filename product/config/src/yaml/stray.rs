//! Variables and templates in values that are not secrets, and tags. Nothing replaces them there, so a file would
//! be named `${LOG}`.

use super::node::{Node, NodeKind};
use super::path::{Path, Step};
use super::tree::Document;
use crate::problem::Problem;

/// Fields that are secrets: their own reader knows variables.
const SECRETS: &[&str] = &["engine_key", "secret", "token", "password"];
/// Fields with a list of secrets.
const LISTS: &[&str] = &["keys", "tokens"];

/// The problems of such values in a file; none for nearly every file, after a quick look.
pub(crate) fn stray(yaml: &str) -> Vec<Problem> {
    let mut found = Vec::new();
    if ["$", "{{", "os.environ/", " !"].iter().any(|mark| yaml.contains(mark))
        && let Ok(document) = Document::read(yaml)
    {
        walk(&document.root, &mut Path::default(), &mut found);
        found.extend(document.tags);
    }
    found
}

fn walk(node: &Node, at: &mut Path, found: &mut Vec<Problem>) {
    match &node.kind {
        NodeKind::Empty => {}
        NodeKind::Text { text, .. } => {
            if let Some(what) = reference(text).filter(|_| !is_secret(at)) {
                let text = format!("{at}: {what}");
                found.push(Problem { line: Some(node.line), text });
            }
        }
        NodeKind::List(entries) => {
            for (place, entry) in entries {
                step(Step::Entry(*place), entry, at, found);
            }
        }
        NodeKind::Section(fields) => {
            for field in fields {
                step(Step::Field(field.name.clone()), &field.value, at, found);
            }
        }
    }
}

fn step(step: Step, node: &Node, at: &mut Path, found: &mut Vec<Problem>) {
    at.0.push(step);
    walk(node, at, found);
    at.0.pop();
}

fn is_secret(at: &Path) -> bool {
    match at.0.as_slice() {
        [.., Step::Field(name)] => SECRETS.contains(&&**name),
        [.., Step::Field(name), Step::Entry(_)] => LISTS.contains(&&**name),
        _ => false,
    }
}

/// What a text refers to, and the remedy.
fn reference(text: &str) -> Option<&'static str> {
    let is_variable = text.contains("${")
        || text.starts_with("os.environ/")
        || text
            .strip_prefix('$')
            .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_uppercase()));
    if is_variable {
        Some("refers to a variable, and only secrets may; write the value itself")
    } else {
        let is_template = text.contains("{{") && text.contains("}}");
        is_template.then_some("is a template; render the file first, and check its output")
    }
}
