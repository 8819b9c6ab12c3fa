//! Wrong configurations that new users write, and the messages that they get.
//!
//! `tests/all/wrong/` has the files; next to each, `.expected` has the message of `meridian check`.
//! `REWRITE=1` rewrites the messages.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/all/wrong")
}

fn meridian(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_meridian"));
    command.args(args).current_dir(folder()).output().expect("the binary runs")
}

/// Valid files, each with a command that must refuse it. `check` refuses all others.
const OF_OTHERS: [(&str, &str); 2] =
    [("control-plane.yaml", "gateway"), ("gateway.yaml", "control")];

/// The message about a file. The list of policies, which are more with the feature `rivals`, is one
/// word.
fn message(name: &str) -> String {
    let of_other = OF_OTHERS.iter().find(|(file, _)| *file == name);
    let said = said(&meridian(&[of_other.map_or("check", |(_, command)| command), "-c", name]));
    let policies = String::from_utf8(meridian(&["policies"]).stdout).expect("is text");
    said.replace(&policies.lines().collect::<Vec<_>>().join(", "), "POLICIES")
}

/// The message of a command that fails.
fn said(output: &Output) -> String {
    assert!(output.stdout.is_empty(), "{}", String::from_utf8_lossy(&output.stdout));
    assert_eq!(output.status.code(), Some(1));
    String::from_utf8(output.stderr.clone()).expect("is text")
}

fn files() -> Vec<String> {
    let entries = std::fs::read_dir(folder()).expect("is there");
    let names = entries.map(|entry| entry.expect("is there").file_name());
    let mut names: Vec<String> = names.map(|name| name.into_string().expect("is text")).collect();
    names.retain(|name| !name.ends_with(".expected"));
    names.sort();
    names
}

// Each wrong file gets its expected message and exit status 1.
#[test]
fn messages() {
    let rewrite = std::env::var_os("REWRITE").is_some();
    let mut wrong = Vec::new();
    for name in files() {
        let message = message(&name);
        let expected = folder().join(format!("{name}.expected"));
        if rewrite {
            std::fs::write(&expected, &message).expect("writes");
        } else if std::fs::read_to_string(&expected).ok().as_deref() != Some(&message) {
            wrong.push(format!("{name}:\n{message}"));
        }
    }
    assert!(wrong.is_empty(), "not as expected; REWRITE=1 rewrites:\n{}", wrong.join("\n"));
}

// No message has a secret of its file, words of the parser's grammar, or names of Rust types.
#[test]
fn messages_are_plain() {
    const JARGON: [&str; 18] = [
        "swordfish",
        "sk-1234",
        "mapping",
        "sequence",
        "scalar",
        "struct",
        "expected",
        "invalid",
        "usize",
        "u16",
        "u32",
        "u64",
        "f64",
        "string",
        "variant",
        "os error",
        "deserial",
        "socket",
    ];
    for name in files() {
        let message = message(&name).replace(&name, "FILE");
        for word in JARGON {
            assert!(!message.contains(word), "{name}: {word} is in\n{message}");
        }
    }
}

// A missing file, and a directory in its place, are reported with the remedy.
#[test]
fn not_a_file() {
    let message = said(&meridian(&["check", "-c", "none.yaml"]));
    assert!(message.starts_with("error: none.yaml: there is no such file in "), "{message}");
    let message = said(&meridian(&["check", "-c", "/none/none.yaml"]));
    assert_eq!(message, "error: /none/none.yaml: there is no such file\n");
    let message = said(&meridian(&["gateway", "-c", "."]));
    assert_eq!(message, "error: . is a directory; name a file, as in ./compose.yaml\n");
}

// A port in use is reported at the start, with the field, its line, the address and the command
// that shows the process.
#[test]
fn port_in_use() {
    let holder = TcpListener::bind("127.0.0.1:0").expect("there is a free port");
    let taken = holder.local_addr().expect("has an address");
    let port = taken.port();
    let dir = std::env::temp_dir().join(format!("meridian-port-in-use-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("makes a folder");
    let file = dir.join("gateway.yaml");
    let path = file.to_str().expect("is text");
    for (field, other) in [("listen", "admin"), ("admin", "listen")] {
        let yaml = format!("version: 1\n{other}: 127.0.0.1:0\n{field}: {taken}\n");
        std::fs::write(&file, yaml).expect("writes");
        let message = said(&meridian(&["gateway", "-c", path]));
        let last = message.lines().last().expect("has a line");
        assert_eq!(
            last,
            format!(
                "error: {path}:3: {field}: {taken} is in use by another process; stop that process \
                 (`ss -ltnp 'sport = :{port}'` shows it), or choose another port"
            )
        );
    }
    let yaml = format!("version: 1\nstore: {}\nadmin: {taken}\n", dir.join("a.redb").display());
    std::fs::write(&file, yaml).expect("writes");
    let message = said(&meridian(&["control", "-c", path]));
    assert!(message.contains(&format!("{path}:3: admin: {taken} is in use")), "{message}");
    std::fs::remove_dir_all(&dir).expect("removes the folder");
}
