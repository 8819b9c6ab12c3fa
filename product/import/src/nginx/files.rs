//! The files of a configuration: a single one, or all those that `nginx -T` prints.
//!
//! `nginx -T` prints every file once, after a line `# configuration file /path:`, and leaves each
//! `include` as it is. Here an `include` is replaced by the printed file. No other file is read, so
//! the `include`s of a single file stay, and become notes.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};

use super::super::source::Source;
use super::tokens::{self, Directive};

/// The most bytes of included files, each counted as often as it is included.
const MOST_BYTES: usize = 8 << 20;
/// The deepest nesting of one included file in another.
const DEEPEST: usize = 8;

struct Files<'a> {
    /// Where relative names start: the folder of nginx.conf.
    folder: PathBuf,
    /// Paths and texts in the order of `nginx -T`; none for a single file.
    printed: Vec<(&'a str, &'a str)>,
    bytes: usize,
}

/// The directives, and the folder where relative names start.
pub(super) fn read(source: &Source) -> anyhow::Result<(Vec<Directive>, PathBuf)> {
    let printed = split(&source.text);
    let folder = match printed.first() {
        Some((path, _)) => Path::new(path).parent().map(Path::to_owned),
        None => source.folder.clone(),
    };
    let mut files = Files { folder: folder.unwrap_or_default(), printed, bytes: 0 };
    let directives = match files.printed.first() {
        Some((path, text)) => files.parse(path, text, 0)?,
        None => tokens::parse(&source.text, &source.name)?,
    };
    Ok((directives, files.folder))
}

/// The path in a line of `nginx -T` before a file.
fn heading(line: &str) -> Option<&str> {
    line.trim_end().strip_prefix("# configuration file ")?.strip_suffix(':')
}

/// The files in the output of `nginx -T`, which may start with its messages.
fn split(text: &str) -> Vec<(&str, &str)> {
    let is_first = |line: &&str| !line.trim().is_empty() && !line.starts_with("nginx: ");
    let mut files: Vec<(&str, usize, usize)> = Vec::new();
    if text.lines().find(is_first).and_then(heading).is_none() {
        return Vec::new();
    }
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        if let Some(path) = heading(line) {
            files.push((path, at, at + line.len()));
        }
        at += line.len();
    }
    assert!(at == text.len(), "the lines are the whole text");
    let ends = files.iter().skip(1).map(|(_, start, _)| *start).chain([text.len()]);
    files.iter().zip(ends).map(|((path, _, start), end)| (*path, &text[*start..end])).collect()
}

impl Files<'_> {
    fn parse(&mut self, path: &str, text: &str, depth: usize) -> anyhow::Result<Vec<Directive>> {
        let name = path.rsplit('/').next().unwrap_or(path);
        self.bytes += text.len();
        ensure!(
            depth <= DEEPEST && self.bytes <= MOST_BYTES,
            "{name}: files include each other, or over {MOST_BYTES} bytes; import the file with the proxy_pass by itself"
        );
        let directives = tokens::parse(text, name).with_context(|| name.to_owned())?;
        self.expand(directives, depth)
    }

    /// Replaces each `include` by the directives of its files.
    fn expand(
        &mut self,
        directives: Vec<Directive>,
        depth: usize,
    ) -> anyhow::Result<Vec<Directive>> {
        let mut all = Vec::new();
        for mut directive in directives {
            if let Some(block) = directive.block.take() {
                directive.block = Some(self.expand(block, depth)?);
            } else if directive.name == "include" {
                let name = self.folder.join(directive.first()).to_string_lossy().into_owned();
                let found: Vec<_> =
                    self.printed.iter().filter(|(path, _)| fits(&name, path)).copied().collect();
                // A pattern that matches no file is no error of nginx's.
                let is_empty = name.contains('*') && !name.contains(['?', '[']);
                for (path, text) in &found {
                    all.extend(self.parse(path, text, depth + 1)?);
                }
                if is_empty || !found.is_empty() {
                    continue;
                }
            }
            all.push(directive);
        }
        Ok(all)
    }
}

/// Whether a path matches a name, in which `*` stands for any text without a slash.
fn fits(name: &str, path: &str) -> bool {
    let mut parts = name.split('*');
    let Some(mut rest) = path.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    let Some(last) = parts.next_back() else { return rest.is_empty() };
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last) && name.matches('/').count() == path.matches('/').count()
}

#[cfg(test)]
mod tests {
    use super::fits;

    // A star matches any text inside one folder.
    #[test]
    fn patterns() {
        for (name, path) in [("/a", "/a"), ("/*.c", "/a.c"), ("/a*b*c", "/axbyc"), ("/*", "/a")] {
            assert!(fits(name, path), "{name} {path}");
        }
        for (name, path) in [("/a", "/ab"), ("/*.c", "/a.d"), ("/a*a", "/a"), ("/*", "/a/b")] {
            assert!(!fits(name, path), "{name} {path}");
        }
    }
}
