//! Every secret of every file: variables, files, and texts that stand in for a secret.

#![allow(clippy::unwrap_used)]

use crate::{Control, Gateway, schema::replica_list_schema};

/// A variable that cargo sets for tests, with its value.
const VARIABLE: (&str, &str) = ("CARGO_PKG_NAME", env!("CARGO_PKG_NAME"));

/// Each secret of a gateway's and of a control plane's file: its path, and the file around it.
const GATEWAY: [(&str, &str); 6] = [
    ("engine_key", "engine_key: #"),
    ("secret", "secret: #"),
    ("credentials.a.engine_key", "credentials: {a: {engine_key: #}}"),
    ("control.token", "control: {url: 'http://c:1', name: us-1, token: #}"),
    ("tenants[0].keys[0]", "tenants: [{name: a, keys: [#]}]"),
    ("admin_access.tokens[0]", "admin_access: {tokens: [#]}"),
];
const CONTROL: [(&str, &str); 2] = [
    ("token", "store: a.redb\ntoken: #"),
    ("etcd.password", "etcd: {endpoints: ['http://e:1'], user: m, password: #}"),
];

/// What is wrong with each file when its secret is `value`; none if it is valid.
fn each(value: &str) -> Vec<(&'static str, Option<String>)> {
    let yaml = |text: &str| format!("version: 1\n{}\n", text.replace('#', value));
    let gateway = GATEWAY.map(|(path, text)| {
        (path, Gateway::read(&yaml(text)).err().map(|error| error.to_string()))
    });
    let control = CONTROL.map(|(path, text)| {
        (path, Control::read(&yaml(text)).err().map(|error| error.to_string()))
    });
    gateway.into_iter().chain(control).collect()
}

/// A file with this text, which is removed at the end.
struct SecretFile(std::path::PathBuf);

impl SecretFile {
    fn new(name: &str, text: impl AsRef<[u8]>) -> SecretFile {
        let path = std::env::temp_dir().join(format!("meridian-{name}-{}", std::process::id()));
        std::fs::write(&path, text).unwrap();
        SecretFile(path)
    }
}

impl Drop for SecretFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

// Defect secret-placeholders: `${NAME}` is the value of an environment variable, and was sent as it stood.
#[test]
fn a_variable_is_read() {
    let (name, value) = VARIABLE;
    let read = |yaml: &str| Gateway::read(&format!("version: 1\n{yaml}\n")).unwrap();
    for (path, yaml) in &GATEWAY[..3] {
        let config = read(&yaml.replace('#', &format!("'${{{name}}}'")));
        let key = match *path {
            "engine_key" => config.engine_key.clone(),
            "secret" => config.secret.clone(),
            _ => config.credentials["a"].engine_key.clone(),
        };
        assert_eq!(key.unwrap().expose(), value, "{path}");
        let printed = config.print().unwrap();
        assert!(printed.contains(&format!("${{{name}}}")) && !printed.contains(value), "{printed}");
        assert_eq!(Gateway::read(&printed).unwrap(), config, "{path}");
    }
}

// A variable that is not set, and one whose value is no secret, are errors that name the field and the
// variable, and not the value.
#[test]
fn a_variable_that_is_no_secret() {
    for (path, error) in each("'${MERIDIAN_NOT_SET_ANYWHERE}'") {
        let error = error.unwrap_or_else(|| panic!("{path} is accepted"));
        let says = format!(
            "{path}: the environment variable `MERIDIAN_NOT_SET_ANYWHERE` is not set; set it for this process, or write `{{file: PATH}}`"
        );
        assert!(error.starts_with(&says), "{error}");
    }
    // Not the hash of a key.
    let (name, value) = VARIABLE;
    for (path, error) in each(&format!("'${{{name}}}'")) {
        if let Some(list) = path.strip_suffix("[0]") {
            let error = error.unwrap_or_else(|| panic!("{path} is accepted"));
            assert!(error.starts_with(&format!("{list}: one is not the hash")), "{error}");
            assert!(!error.contains(value), "{error}");
        }
    }
}

// Defect secret-placeholders: `{file: PATH}` is the text of a file, without the newline at its end.
#[test]
fn a_file_is_read() {
    let text = format!("sha256:{}", "0a".repeat(32));
    for (name, end) in [("unix", "\n"), ("dos", "\r\n"), ("bare", "")] {
        let file = SecretFile::new(&format!("secret-{name}"), format!("{text}{end}"));
        let value = format!("{{file: {}}}", file.0.display());
        for (path, error) in each(&value) {
            assert_eq!(error, None, "{path}");
        }
        let yaml = format!("version: 1\nengine_key: {value}\n");
        let config = Gateway::read(&yaml).unwrap();
        assert_eq!(config.engine_key.as_ref().unwrap().expose(), text);
        let printed = config.print().unwrap();
        assert!(printed.contains("file: ") && !printed.contains(&text), "{printed}");
        assert_eq!(Gateway::read(&printed).unwrap(), config);
    }
}

// A file that is missing, empty, no regular file, too large, of several lines or not text is an error with
// the remedy, which does not show the text.
#[test]
fn files_that_are_no_secret() {
    let files = [
        SecretFile::new("secret-empty", "\n"),
        SecretFile::new("secret-long", "k".repeat(9000)),
        SecretFile::new("secret-lines", "swordfish\nswordfish\n"),
        SecretFile::new("secret-binary", b"\xffswordfish"),
        SecretFile::new("secret-placeholder", "changeme\n"),
    ];
    let mut paths: Vec<_> = files.iter().map(|file| file.0.display().to_string()).collect();
    paths.extend(["/nowhere/at/all", "/dev/zero", "/", "''"].map(str::to_owned));
    let says = [
        "is empty; write the secret",
        "has more than 8192 bytes; keep the secret alone",
        "has several lines; keep the secret alone",
        "is not UTF-8 text; write the secret as text",
        "is a placeholder; write the secret",
        "there is no file /nowhere/at/all; check the path",
        "/dev/zero is not a regular file; use a file",
        "/ is not a regular file; use a file",
        "file: is empty; name a file",
    ];
    for (file, says) in paths.iter().zip(says) {
        for (path, error) in each(&format!("{{file: {file}}}")) {
            let error = error.unwrap_or_else(|| panic!("{path} with {file} is accepted"));
            assert!(error.starts_with(&format!("{path}: ")) && error.contains(says), "{error}");
            assert!(!error.contains("swordfish"), "{error}");
        }
    }
    for value in ["{env: X}", "{}", "{file: [a]}", "[a]"] {
        for (path, error) in each(value) {
            assert!(error.is_some(), "{path} with {value} is accepted");
        }
    }
}

/// Texts that stand in for a secret.
const PLACEHOLDERS: &[&str] = &[
    "",
    " ",
    "${A B}",
    "${KEY:-x}",
    "Bearer ${KEY}",
    "${}",
    "$KEY",
    "$(KEY)",
    "%KEY%",
    "{{ key }}",
    "{{ .Values.key }}",
    "<%= key %>",
    "os.environ/KEY",
    "os.environ['KEY']",
    "env:KEY",
    "ENV:KEY",
    "env.KEY",
    "process.env.KEY",
    "$env:KEY",
    "file:/run/key",
    "file:key",
    "@/run/key",
    "/run/secrets/key",
    "~/key",
    "./key",
    "vault:secret/data#key",
    "op://vault/item",
    "secrets.KEY",
    "arn:aws:secretsmanager:x",
    "<your key>",
    "<KEY>",
    "sk-<key>",
    "[key]",
    "__KEY__",
    "changeme",
    "CHANGE_ME",
    "change-me-please",
    "Change Me",
    "replace-me",
    "REPLACE_WITH_KEY",
    "your-key",
    "YOUR_API_KEY",
    "your-api-key-here",
    "Todo",
    "tbd",
    "none",
    "None",
    "NULL",
    "undefined",
    "placeholder",
    "xxx",
    "Xxxx",
    "sk-xxxx",
    "sk-xxxxxxxxxxxx",
    "***",
    "sk-********",
    "...",
    "sk-...",
    "sk-...abcd",
    "sk-…",
    "----",
    "(set)",
];

// Defect secret-placeholders: a text that stands in for a secret is refused, in each place that has one.
#[test]
fn placeholders_are_refused() {
    for text in PLACEHOLDERS {
        for (path, error) in each(&format!("'{}'", text.replace('\'', "''"))) {
            let error = error.unwrap_or_else(|| panic!("{path} accepts {text:?}"));
            // The file as a whole is a template then.
            let whole = text.contains("{{");
            assert!(whole || error.starts_with(&format!("{path}: ")), "{text:?}: {error}");
            let remedies = ["; write ", "; let ", "; render "];
            assert!(remedies.iter().any(|it| error.contains(it)), "{text:?}: {error}");
        }
    }
}

// Without quotes, YAML makes something else of a text.
#[test]
fn values_without_quotes() {
    for value in ["", "~", "true", "1234567890123456", "12345678901234.5", "-7"] {
        for (path, error) in each(value) {
            // An empty entry of a list is none.
            let is_entry = path.ends_with(']') && value.is_empty();
            let error = error.filter(|_| !is_entry);
            assert!(error.is_some() || is_entry, "{path} accepts {value:?}");
            assert!(
                value.len() < 3 || !error.unwrap_or_default().contains(value),
                "{path}: {value}"
            );
        }
    }
}

// Random keys, passwords and sentences are secrets, whatever they look like.
#[test]
fn secrets_are_accepted() {
    for text in [
        "sk-1234567890abcdefghij",
        "0123456789abcdef",
        "5f4dcc3b5aa765d61d8327deb882cf99",
        "/abcDEF+ghi/jklMNO0123456789pqrSTUvwx=",
        "p$ssw0rd-with-a-dollar",
        "hunter2-hunter2-hunter2",
        "mk-8c1f0e4b6a7d4b0f9f5f2f3d",
    ] {
        for (path, error) in each(&format!("'{text}'")) {
            let is_hash = path.ends_with(']');
            assert!(error.is_none() || is_hash, "{path}: {text}: {error:?}");
        }
    }
    let read = |secret: &str| Gateway::read(&format!("version: 1\nsecret: {secret}\n"));
    assert!(read("a test's secret").is_ok());
    assert!(read("\"wait... what? <b\"").is_ok());
}

// Two configurations that differ only in a secret differ in its key, though neither shows the value.
#[test]
fn a_change_is_seen() {
    let read = |key: &str| Gateway::read(&format!("version: 1\nengine_key: {key}\n")).unwrap();
    let (one, other) = (read("open-sesame-1"), read("open-sesame-2"));
    assert_eq!(crate::changed_keys(&one, &other), ["engine_key"]);
    assert_eq!(crate::changed_keys(&one, &one), Vec::<String>::new());
    assert_eq!(crate::changed_sections(&one, &other), ["engine_key"]);
    let shown = format!("{one:?} {}", one.print().unwrap());
    assert!(!shown.contains("sesame") && shown.contains("(set)"), "{shown}");
    let whole = one.print_with_secrets().unwrap();
    assert_eq!(Gateway::read(&whole).unwrap(), one);
}

// A variable anywhere else is refused: nothing would replace it.
#[test]
fn variables_are_for_secrets() {
    for (yaml, path) in [
        ("access_log: {to: '${LOG}/access.log'}", "access_log.to"),
        ("journal: {to: $HOME/journal}", "journal.to"),
        ("models: {a: {alias: 'os.environ/MODEL'}}", "models.a.alias"),
        ("models: {a: {alias: '{{ model }}'}}", "models.a.alias"),
        ("tls: {certificate: '${DIR}/a.crt', key: a.key}", "tls.certificate"),
        (
            "keys: {headers: [x-a], tenant_header: x-b}\ndiscovery: [{file: '${F}'}]",
            "discovery[0].file",
        ),
    ] {
        let error = Gateway::read(&format!("version: 1\n{yaml}\n")).expect_err(yaml).to_string();
        assert!(error.starts_with(&format!("{path}: ")), "{error}");
    }
}

// The form that other programs use for files has its remedy.
#[test]
fn files_have_one_form() {
    for (yaml, says) in [
        ("engine_key_file: /k", "engine_key_file: unknown field; write `engine_key: {file: PATH}`"),
        ("secret_file: /k", "secret_file: unknown field; write `secret: {file: PATH}`"),
        ("credentials: {a: {engine_key_file: /k}}", "write `engine_key: {file: PATH}`"),
        ("engine_key: {env: KEY}", "engine_key: `env` does not fit here; write a text, `${NAME}`"),
    ] {
        let error = Gateway::read(&format!("version: 1\n{yaml}\n")).expect_err(yaml).to_string();
        assert!(error.contains(says), "{error}");
    }
    assert!(Gateway::schema()["$defs"]["Secret"]["oneOf"].is_array());
    assert_eq!(replica_list_schema()["type"], "array");
}
