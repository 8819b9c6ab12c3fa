//! Words of a command line, with variables replaced by their values in the file.

use std::collections::BTreeMap;

/// Variables of a file.
#[derive(Default)]
pub(super) struct Variables(BTreeMap<String, String>);

impl Variables {
    /// Reads `NAME=value`, possibly after `export`; returns whether the line is one.
    pub(super) fn take(&mut self, line: &str) -> bool {
        let line = line.trim();
        let line = line.strip_prefix("export ").unwrap_or(line);
        let Some((name, _)) = line.split_once('=') else { return false };
        if !is_name(name) {
            return false;
        }
        // More words are a command with a variable of its own.
        let Some(words) = shlex::split(line).filter(|words| words.len() == 1) else { return false };
        let value = words[0][name.len() + 1..].to_owned();
        let value = self.replaced(&value);
        self.0.insert(name.to_owned(), value);
        true
    }

    /// The words of a command, up to the first operator of the shell.
    pub(super) fn words(&self, line: &str) -> Option<Vec<String>> {
        const ENDS: [&str; 6] = ["&", "&&", "|", "||", ";", "2>&1"];
        // A variable may hold several words, so it is replaced before the split.
        let words = shlex::split(&self.replaced(line))?;
        let end = |word: &String| ENDS.contains(&word.as_str()) || word.starts_with(['>', '<']);
        let until = words.iter().position(end).unwrap_or(words.len());
        Some(words[..until].iter().map(|word| word.trim_end_matches(';').to_owned()).collect())
    }

    /// A single word with its variables replaced; Kubernetes writes them `$(NAME)`.
    pub(super) fn value(&self, word: &str) -> String {
        match word.strip_prefix("$(").and_then(|word| word.strip_suffix(')')) {
            Some(name) => self.replaced(&format!("${{{name}}}")),
            None => self.replaced(word),
        }
    }

    fn replaced(&self, text: &str) -> String {
        let mut out = String::new();
        let mut rest = text;
        while let Some(at) = rest.find('$') {
            out.push_str(&rest[..at]);
            rest = &rest[at + 1..];
            let (whole, name, default) = reference(rest);
            assert!(whole <= rest.len(), "a reference ends within the text");
            match self.0.get(name).map(String::as_str).or(default) {
                Some(value) if whole > 0 => out.push_str(value),
                _ => {
                    out.push('$');
                    out.push_str(&rest[..whole]);
                }
            }
            rest = &rest[whole..];
        }
        out + rest
    }
}

/// The reference at the start of a text: its length, its name, and the value in `${NAME:-value}`.
fn reference(text: &str) -> (usize, &str, Option<&str>) {
    if let Some(inside) = text.strip_prefix('{') {
        let Some(end) = inside.find('}') else { return (0, "", None) };
        let (name, default) = match inside[..end].split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (&inside[..end], None),
        };
        return if is_name(name) { (end + 2, name, default) } else { (0, "", None) };
    }
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
    if is_name(&text[..end]) { (end, &text[..end], None) } else { (0, "", None) }
}

/// The first variable that is left in a word, because it has no value.
pub(super) fn unset(word: &str) -> Option<&str> {
    let (_, rest) = word.split_once('$')?;
    let (length, name, _) = reference(rest);
    (length > 0).then_some(name)
}

fn is_name(text: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_';
    !text.is_empty() && !text.starts_with(|c: char| c.is_ascii_digit()) && text.chars().all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    // Variables of the file are replaced, even by several words; others stay as they are.
    #[test]
    fn variables() {
        let mut variables = Variables::default();
        assert!(variables.take("WORKERS=\"http://a:1 http://b:1\""));
        assert!(variables.take("export PORT=3${X:-0000}"));
        assert!(!variables.take("A=b command") && !variables.take("if [ a = b ]"));
        let words = variables.words("r --worker-urls $WORKERS --port ${PORT} --host $HOST > log &");
        let expected = [
            "r",
            "--worker-urls",
            "http://a:1",
            "http://b:1",
            "--port",
            "30000",
            "--host",
            "$HOST",
        ];
        assert_eq!(words.expect("are words"), expected);
        assert_eq!((unset("$HOST"), unset("a$"), unset("${A}b")), (Some("HOST"), None, Some("A")));
    }
}
