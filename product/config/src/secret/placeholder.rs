//! Texts that stand where a secret should.
//!
//! Two kinds: one that is no secret wherever it comes from, such as `changeme`, and one that refers to a
//! secret in a form that this program does not read, such as `os.environ/KEY`. A value from a variable or
//! a file is not checked for the second: there a password may well start with `$`.

pub(super) const EMPTY: &str = "is empty; write the secret, or remove the line";
const LEFT_OVER: &str =
    "is a placeholder; write the secret itself, `${NAME}` or `{file: PATH}`, or remove the line";
const CUT: &str = "is cut short by `...`; write the whole secret, `${NAME}` or `{file: PATH}`";
const TEMPLATE: &str = "is a template that was not filled in; write the secret itself, `${NAME}` for an environment variable, or `{file: PATH}`";
const VARIABLE: &str = "refers to a variable in a form that is not read here; write `${NAME}` alone, with letters, digits and underscores, without a default or other text";
const FILE: &str = "refers to a file in a form that is not read here; write `{file: PATH}`";
const STORE: &str = "refers to a store of secrets, which is not read here; let it provide an environment variable and write `${NAME}`, or a file and write `{file: PATH}`";

/// Parts of a placeholder, in lower case and without punctuation.
const WORDS: &[&str] = &[
    "changeme",
    "changethis",
    "replaceme",
    "replacethis",
    "replacewith",
    "apikeyhere",
    "yourkey",
    "yourapikey",
    "yoursecret",
    "yourtoken",
    "yourpassword",
    "yourenginekey",
    "insertkey",
    "insertyour",
    "placeholder",
    "secrethere",
    "tokenhere",
    "passwordhere",
    "redacted",
];
/// Whole placeholders, in lower case.
const WHOLE: &[&str] =
    &["none", "null", "nil", "undefined", "todo", "tbd", "fixme", "unset", "(set)", "n/a"];
/// How other programs refer to variables, in lower case.
const VARIABLES: &[&str] = &[
    "os.environ",
    "os.getenv",
    "process.env",
    "env:",
    "env.",
    "env/",
    "env(",
    "$env:",
    "environ:",
    "envvar:",
    "environment:",
    "var:",
];
/// How other programs, and people, refer to files.
const FILES: &[&str] = &[
    "file:",
    "file=",
    "file(",
    "@/",
    "@./",
    "~/",
    "./",
    "../",
    "/run/",
    "/etc/",
    "/var/",
    "/home",
    "/mnt/",
    "/opt/",
    "/secrets/",
    "/tmp/",
    "/root",
    "/srv/",
];
/// How other programs refer to stores, in lower case.
const STORES: &[&str] = &[
    "vault:",
    "secret:",
    "secret://",
    "secrets.",
    "op://",
    "sm://",
    "awssm://",
    "gcpsm://",
    "ref+",
    "arn:aws",
    "keyvault:",
    "azure_key_vault/",
    "aws_secret/",
    "k8s:",
    "kms:",
    "sops:",
    "secretkeyref",
];

/// The name in `${NAME}`.
pub(super) fn variable(text: &str) -> Option<&str> {
    let name = text.strip_prefix("${")?.strip_suffix('}')?;
    is_name(name).then_some(name)
}

/// Why a text is no secret, wherever it comes from.
pub(super) fn problem(text: &str) -> Option<&'static str> {
    let trimmed = text.trim();
    let lower = trimmed.to_ascii_lowercase();
    let letters: String = lower.chars().filter(|c| c.is_alphanumeric()).collect();
    if trimmed.is_empty() {
        Some(EMPTY)
    } else if is_template(trimmed) {
        Some(TEMPLATE)
    } else if lower.starts_with("os.environ/") || trimmed.contains("${") && trimmed.contains('}') {
        Some(VARIABLE)
    } else if WHOLE.contains(&&*lower)
        || WORDS.iter().any(|word| letters.contains(word))
        || is_mask(trimmed)
    {
        Some(LEFT_OVER)
    } else {
        let is_cut = trimmed.contains("...") || trimmed.contains('…');
        (is_cut && !trimmed.contains(' ')).then_some(CUT)
    }
}

/// Why a text in the configuration refers to a secret instead of being one.
pub(super) fn reference(text: &str) -> Option<&'static str> {
    let text = text.trim();
    let lower = text.to_ascii_lowercase();
    let starts = |with: &[&str]| with.iter().any(|start| lower.starts_with(start));
    let between = |start: &str, end: &str| {
        text.strip_prefix(start).and_then(|rest| rest.strip_suffix(end)).is_some_and(is_name)
    };
    let is_variable = starts(VARIABLES)
        || text.strip_prefix('$').is_some_and(is_name)
        || text.starts_with("$(") && text.ends_with(')')
        || between("%", "%");
    if is_variable {
        Some(VARIABLE)
    } else if starts(FILES) {
        Some(FILE)
    } else {
        starts(STORES).then_some(STORE)
    }
}

fn is_name(name: &str) -> bool {
    let starts = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    starts && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// `{{ key }}`, `<key>`, `[key]`, `__KEY__`, `@KEY@`, `#{KEY}`: the marks of templates and of manuals.
fn is_template(text: &str) -> bool {
    let within = |start: &str, end: &str| {
        text.len() > start.len() + end.len() && text.starts_with(start) && text.ends_with(end)
    };
    let shouts =
        text.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b"_@".contains(&b));
    text.contains("{{") && text.contains("}}")
        || text.contains("<%") && text.contains("%>")
        || text.contains('<') && text.ends_with('>')
        || within("[", "]")
        || text.contains("#{") && text.contains('}')
        || shouts && (within("__", "__") || within("@", "@"))
}

/// `***`, `xxxx`, `sk-xxxx`: one mark again and again.
fn is_mask(text: &str) -> bool {
    const MARKS: &str = "x*.•-_?#";
    const LEAST: usize = 3;
    /// So many in a row are no accident in a random key.
    const RUN: usize = 6;
    let text = text.to_lowercase();
    let rest = text.rsplit(['-', '_']).next().unwrap_or(&text);
    let is_one = |text: &str| {
        let mark = text.chars().next();
        mark.is_some_and(|mark| MARKS.contains(mark) && text.chars().all(|c| c == mark))
            && text.chars().count() >= LEAST
    };
    let has_run = ["x", "*", "•"].iter().any(|mark| text.contains(&mark.repeat(RUN)));
    is_one(&text) || is_one(rest) || has_run
}
