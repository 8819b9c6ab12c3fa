//! `include`: the directive is replaced by the directives of other files.

use std::path::{Path, PathBuf};

use super::super::draft::Draft;
use super::super::note::Found;
use super::super::source;
use super::tokens::{self, Directive};

/// Most included files, and the deepest nesting of one in another.
const MOST_FILES: usize = 64;
const DEEPEST: usize = 8;

/// Reads included files, within bounds.
pub(super) struct Includes<'a> {
    /// Relative names start here, as they start in the folder of nginx.conf.
    folder: Option<&'a Path>,
    files: usize,
}

impl<'a> Includes<'a> {
    pub(super) fn new(folder: Option<&'a Path>) -> Includes<'a> {
        Includes { folder, files: 0 }
    }

    /// The directives, with each `include` replaced by the included files' directives.
    pub(super) fn expand(
        &mut self,
        directives: Vec<Directive>,
        draft: &mut Draft,
    ) -> Vec<Directive> {
        self.inside(directives, 0, draft)
    }

    fn inside(
        &mut self,
        directives: Vec<Directive>,
        depth: usize,
        draft: &mut Draft,
    ) -> Vec<Directive> {
        let mut all = Vec::new();
        for mut directive in directives {
            if directive.name == "include" && directive.block.is_none() {
                all.extend(self.included(&directive, depth, draft));
                continue;
            }
            directive.block = directive.block.map(|block| self.inside(block, depth, draft));
            all.push(directive);
        }
        all
    }

    fn included(
        &mut self,
        directive: &Directive,
        depth: usize,
        draft: &mut Draft,
    ) -> Vec<Directive> {
        let name = directive.args.first().map_or("", String::as_str);
        // A list of file types has nothing to convert.
        if name.ends_with("mime.types") {
            return Vec::new();
        }
        let found = Found::new("include", name, &directive.place);
        let files = match self.files(name) {
            Ok(files) => files,
            Err((why, remedy)) => {
                draft.note(&found, why, remedy);
                return Vec::new();
            }
        };
        let mut all = Vec::new();
        for file in files {
            self.files += 1;
            if self.files > MOST_FILES || depth >= DEEPEST {
                let why = format!("more than {MOST_FILES} files, or files that include each other");
                draft.note(&found, why, "import the file with the proxy_pass by itself");
                return all;
            }
            let label = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if !file.is_file() {
                let remedy = "run the import where nginx runs, or add the file";
                draft.note(&found, "there is no such file here", remedy);
                continue;
            }
            let read = source::file(&file).and_then(|text| tokens::parse(&text, &label));
            match read {
                Ok(directives) => all.extend(self.inside(directives, depth + 1, draft)),
                Err(error) => {
                    draft.note(&found, format!("{error:#}"), "correct the file or its name");
                }
            }
        }
        all
    }

    /// The files of a name, which may have `*` and `?` after its last slash.
    fn files(&self, name: &str) -> Result<Vec<PathBuf>, (&'static str, &'static str)> {
        let path = match self.folder {
            _ if Path::new(name).is_absolute() => PathBuf::from(name),
            Some(folder) => folder.join(name),
            None => {
                return Err((
                    "stdin has no folder that the name could start from",
                    "name the file",
                ));
            }
        };
        let last = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if !last.contains(['*', '?', '[']) {
            return Ok(vec![path]);
        }
        let folder = path.parent().unwrap_or(Path::new("."));
        let remedy = "run the import where nginx runs, or name each file";
        if last.contains('[') || folder.to_string_lossy().contains(['*', '?', '[']) {
            return Err(("only * and ? in a file's name are understood", remedy));
        }
        let entries =
            std::fs::read_dir(folder).map_err(|_| ("its folder cannot be read", remedy))?;
        let mut files: Vec<PathBuf> = entries
            .filter_map(|entry| entry.ok().map(|entry| entry.path()))
            .filter(|path| path.file_name().is_some_and(|f| matches(&last, &f.to_string_lossy())))
            .filter(|path| path.is_file())
            .collect();
        files.sort();
        Ok(files)
    }
}

/// Whether a name matches a pattern, as in a shell.
fn matches(pattern: &str, name: &str) -> bool {
    // nginx ignores hidden files, as a shell does.
    if name.starts_with('.') && !pattern.starts_with('.') {
        return false;
    }
    let (pattern, name): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), name.chars().collect());
    // For each prefix of the pattern, whether it matches the part of the name read so far.
    let mut fits = vec![true];
    fits.extend(pattern.iter().scan(true, |all, c| {
        *all &= *c == '*';
        Some(*all)
    }));
    for c in name {
        let mut next = vec![false; fits.len()];
        for (i, p) in pattern.iter().enumerate() {
            next[i + 1] = match p {
                '*' => fits[i + 1] || next[i],
                p => fits[i] && (*p == '?' || *p == c),
            };
        }
        fits = next;
    }
    fits.last() == Some(&true)
}

#[cfg(test)]
mod tests {
    use super::matches;

    // Stars and question marks match as in a shell.
    #[test]
    fn patterns() {
        for (pattern, name) in [("*", "a"), ("*.conf", "a.conf"), ("a*b?c", "axxbyc"), ("a*", "a")]
        {
            assert!(matches(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in
            [("*.conf", "a.conf~"), ("*", ".a"), ("?", ""), ("a*b", "ac"), ("", "a")]
        {
            assert!(!matches(pattern, name), "{pattern} {name}");
        }
    }
}
