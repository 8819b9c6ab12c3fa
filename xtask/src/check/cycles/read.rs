//! Reads the modules of a crate: each file's declarations, imports and names.
//!
//! Items under `#[cfg(test)]` are skipped, and so is a test module with all its files.

use std::collections::{BTreeMap, BTreeSet};

use crate::check::code::{DEFINES, code};
use crate::check::tokens::{Kind, Token};

/// A module: a file, or an inline `mod` of one.
#[derive(Default)]
pub(super) struct Module {
    pub(super) file: String,
    pub(super) parent: Option<usize>,
    /// Modules declared here, as indices into the list of all modules.
    pub(super) children: BTreeMap<String, usize>,
    pub(super) imports: Vec<Import>,
    /// Items that are defined here.
    pub(super) items: BTreeSet<String>,
    /// Paths of two segments or more outside of imports, with their lines.
    pub(super) paths: Vec<(usize, Vec<String>)>,
    /// All names outside of imports, but not those of fields and methods.
    pub(super) words: BTreeSet<String>,
}

/// One name that a `use` imports.
pub(super) struct Import {
    pub(super) line: usize,
    pub(super) path: Vec<String>,
    /// The name here; `*` for all names of a module.
    pub(super) name: String,
    /// Whether the name is re-exported: `pub use`.
    pub(super) exported: bool,
}

/// The modules of the crate with this root, which is the first of them.
pub(super) fn modules(root: &str, sources: &BTreeMap<&str, &str>) -> Vec<Module> {
    let mut modules = Vec::new();
    let folder = root.rsplit_once('/').map_or("", |(folder, _)| folder);
    file(&mut modules, sources, None, root, folder);
    modules
}

/// Adds a file with all modules under it, and returns its index.
fn file(
    modules: &mut Vec<Module>,
    sources: &BTreeMap<&str, &str>,
    parent: Option<usize>,
    path: &str,
    folder: &str,
) -> usize {
    let id = modules.len();
    modules.push(Module { file: path.to_owned(), parent, ..Module::default() });
    let tokens = code(sources.get(path).copied().unwrap_or_default());
    let mut reader = Reader { tokens: &tokens, at: 0, modules, sources };
    reader.items(id, folder);
    id
}

struct Reader<'a, 'b> {
    tokens: &'a [Token<'a>],
    at: usize,
    modules: &'b mut Vec<Module>,
    sources: &'b BTreeMap<&'b str, &'b str>,
}

impl<'a> Reader<'a, '_> {
    fn kind(&self, ahead: usize) -> Option<Kind<'a>> {
        self.tokens.get(self.at + ahead).map(|token| token.kind)
    }

    fn word(&self, ahead: usize) -> Option<&'a str> {
        match self.kind(ahead)? {
            Kind::Word(word) => Some(word),
            _ => None,
        }
    }

    fn is(&self, ahead: usize, mark: char) -> bool {
        self.kind(ahead) == Some(Kind::Mark(mark))
    }

    /// Reads to the end of the file, or of the current inline module.
    fn items(&mut self, id: usize, folder: &str) {
        let mut depth = 0;
        while let Some(kind) = self.kind(0) {
            match kind {
                Kind::Mark('{') => (depth, self.at) = (depth + 1, self.at + 1),
                Kind::Mark('}') if depth == 0 => return self.at += 1,
                Kind::Mark('}') => (depth, self.at) = (depth - 1, self.at + 1),
                // After a dot comes a field or a method, after colons the rest of a longer path.
                Kind::Mark('.') | Kind::Colons if self.word(1).is_some() => self.at += 2,
                Kind::Word("pub") => self.public(id),
                Kind::Word("use") if !self.is(1, '<') => self.import(id, false),
                Kind::Word("mod") => self.module(id, folder),
                Kind::Word(word) => self.name(id, word, depth),
                _ => self.at += 1,
            }
        }
    }

    /// `pub` or `pub(crate)`: the next item may be a re-export.
    fn public(&mut self, id: usize) {
        self.at += 1;
        if self.is(0, '(') {
            while self.kind(0).is_some() && !self.is(0, ')') {
                self.at += 1;
            }
            self.at += 1;
        }
        if self.word(0) == Some("use") {
            self.import(id, true);
        }
    }

    fn import(&mut self, id: usize, exported: bool) {
        self.at += 1;
        self.tree(id, &mut Vec::new(), exported);
    }

    /// One tree of a `use`: a path that ends in a name, a star or a list of trees.
    fn tree(&mut self, id: usize, path: &mut Vec<String>, exported: bool) {
        let kept = path.len();
        while let Some(token) = self.tokens.get(self.at).copied() {
            self.at += 1;
            match token.kind {
                Kind::Colons => {}
                Kind::Word("self") if kept > 0 && path.len() == kept => {}
                Kind::Word(word) => path.push(word.to_owned()),
                Kind::Mark('{') => {
                    while self.kind(0).is_some() && !self.is(0, '}') {
                        self.tree(id, path, exported);
                        self.at += usize::from(self.is(0, ','));
                    }
                    self.at += 1;
                    break;
                }
                Kind::Mark('*') => {
                    self.bring(id, token.line, path, "*", exported);
                    break;
                }
                _ => break,
            }
            // A name ends the tree unless colons follow it.
            if self.kind(0) != Some(Kind::Colons) && token.kind != Kind::Colons {
                let renamed = (self.word(0) == Some("as")).then(|| self.word(1)).flatten();
                self.at += if renamed.is_some() { 2 } else { 0 };
                let name = renamed.or(path.last().map(String::as_str)).unwrap_or_default();
                let name = name.to_owned();
                self.bring(id, token.line, path, &name, exported);
                break;
            }
        }
        path.truncate(kept);
    }

    fn bring(&mut self, id: usize, line: usize, path: &[String], name: &str, exported: bool) {
        let (path, name) = (path.to_vec(), name.to_owned());
        self.modules[id].imports.push(Import { line, path, name, exported });
    }

    /// `mod name;` is a file, `mod name {` continues in this one.
    fn module(&mut self, id: usize, folder: &str) {
        let Some(name) = self.word(1) else { return self.at += 1 };
        let inside = format!("{folder}/{name}");
        let inline = self.is(2, '{');
        self.at += 3;
        let child = if inline {
            let child = self.modules.len();
            let file = self.modules[id].file.clone();
            self.modules.push(Module { file, parent: Some(id), ..Module::default() });
            self.items(child, &inside);
            child
        } else {
            let paths = [format!("{inside}.rs"), format!("{inside}/mod.rs")];
            let Some(path) = paths.iter().find(|path| self.sources.contains_key(path.as_str()))
            else {
                return;
            };
            file(self.modules, self.sources, Some(id), path, &inside)
        };
        self.modules[id].children.insert(name.to_owned(), child);
    }

    /// A word: the head of a definition, or the start of a path.
    fn name(&mut self, id: usize, word: &str, depth: usize) {
        let line = self.tokens[self.at].line;
        self.at += 1;
        if DEFINES.contains(&word) {
            let head = self.at + usize::from(self.is(0, '!'));
            let defined = self.tokens.get(head).map(|token| token.kind);
            if let Some(Kind::Word(name)) = defined
                && !DEFINES.contains(&name)
            {
                self.at = head + 1;
                if depth == 0 {
                    self.modules[id].items.insert(name.to_owned());
                }
            }
            return;
        }
        let mut path = vec![word.to_owned()];
        while let (Some(Kind::Colons), Some(next)) = (self.kind(0), self.word(1)) {
            path.push(next.to_owned());
            self.at += 2;
        }
        self.modules[id].words.insert(word.to_owned());
        if path.len() > 1 {
            self.modules[id].paths.push((line, path));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<Module> {
        modules("src/lib.rs", &[("src/lib.rs", text), ("src/a.rs", "")].into())
    }

    // Each form of a `use` becomes names with their paths.
    #[test]
    fn reads_imports() {
        let text = "use crate::{a::{self, B as C}, d::*};\npub(crate) use super::E;\nuse f;";
        let modules = read(text);
        let form = |one: &Import| {
            let mark = if one.exported { "pub " } else { "" };
            format!("{} {mark}{} {}", one.line, one.path.join("::"), one.name)
        };
        let imports: Vec<_> = modules[0].imports.iter().map(form).collect();
        let expected =
            ["1 crate::a a", "1 crate::a::B C", "1 crate::d *", "2 pub super::E E", "3 f f"];
        assert_eq!(imports, expected);
    }

    // Code that is only compiled for tests is skipped; the code after it is not.
    #[test]
    fn leaves_test_code_out() {
        let text = "#[cfg(test)]\nmod tests { use crate::no; }\n#[cfg(test)]\n#[derive(A)]\n\
                    struct No { a: u8 }\n#[cfg(test)]\nuse crate::{no, not};\nfn f() {}\n\
                    struct S { #[cfg(test)] no: a::No, yes: a::Yes }\n#[cfg(test)]\nmod a;\n";
        let modules = read(text);
        assert_eq!(modules.len(), 1);
        assert!(modules[0].imports.is_empty());
        let items: Vec<_> = modules[0].items.iter().map(String::as_str).collect();
        assert_eq!(items, ["S", "f"]);
        let paths: Vec<_> = modules[0].paths.iter().map(|(_, path)| path.join("::")).collect();
        assert_eq!(paths, ["a::Yes"]);
    }

    // Paths are found with their lines; fields, methods and other crates' roots are not paths.
    #[test]
    fn reads_paths() {
        let text = "mod a;\nfn f() { a::g::<u8>(); self.b.c::<D>(); ::std::mem::drop(1) }\n\
                    mod inner { fn h() { super::f() } }\n";
        let modules = read(text);
        assert_eq!(modules[0].paths, [(2, vec!["a".to_owned(), "g".to_owned()])]);
        assert_eq!(modules[2].paths, [(3, vec!["super".to_owned(), "f".to_owned()])]);
        assert_eq!(modules[0].children.keys().collect::<Vec<_>>(), ["a", "inner"]);
        assert_eq!(
            (modules[1].file.as_str(), modules[2].file.as_str()),
            ("src/a.rs", "src/lib.rs")
        );
    }
}
