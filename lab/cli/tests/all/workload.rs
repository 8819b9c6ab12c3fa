//! `meridian workload` as a command.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn meridian(args: &[&str]) -> Output {
    let mut command = Command::new(crate::programs::MERIDIAN);
    command.arg("workload").args(args).output().expect("the binary was built for this test")
}

fn text(args: &[&str]) -> String {
    let output = meridian(args);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {errors}");
    String::from_utf8(output.stdout).expect("it writes UTF-8")
}

fn fixture(name: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("crates is above this crate");
    root.join("workload/tests/fixtures").join(name).display().to_string()
}

/// A folder that is removed at the end of its test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("meridian-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("the system has a folder for temporary files");
        Folder(path)
    }

    fn file(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}

// Every generator and every format has its line, and a generator its parameters.
#[test]
fn list() {
    let list = text(&["list", "--verbose"]);
    for spec in meridian_workload::GENERATORS {
        assert!(list.contains(spec.name) && list.contains(spec.summary), "{}", spec.name);
        assert!(spec.knobs().all(|knob| list.contains(knob.doc)), "{}", spec.name);
    }
    for format in meridian_workload::trace::Format::ALL {
        assert!(list.contains(format.summary()), "{}", format.name());
    }
}

// A trace that a generator writes, compressed or not and in either format, has the same statistics
// as the generator. The same seed writes the same bytes.
#[test]
fn write_and_read() {
    let folder = Folder::new("workload-write");
    let made = ["--generator", "sessions", "--set", "turns=3", "--requests", "300", "--seed", "9"];
    let figures = |args: &[&str]| {
        let stats = text(&[&["stats"], args].concat());
        stats.lines().filter(|line| !line.starts_with("regions")).collect::<Vec<_>>().join("\n")
    };
    let clients = ["--clients", "us=5,eu=3"];
    let want = figures(&[&made[..], &clients].concat());
    for (name, format) in [("a.jsonl", "journal"), ("b.jsonl.gz", "journal")] {
        let file = folder.file(name);
        let write = ["write", "--format", format, "-o", &file];
        text(&[&write, &made[..], &clients].concat());
        assert_eq!(figures(&[&file]), want, "{name}");
        let again = text(&[&["write", "--format", format], &made[..], &clients].concat());
        if name == "a.jsonl" {
            assert_eq!(std::fs::read_to_string(&file).expect("it was written"), again);
        }
    }
    let file = folder.file("c.jsonl");
    let write = ["write", "--format", "mooncake", "--block-tokens", "16", "-o", &file];
    text(&[&write, &made[..], &clients].concat());
    // Mooncake's format has no sessions, so turns are recognized by their prefixes.
    let reuse =
        |text: &str| text.lines().find(|line| line.starts_with("prefix")).map(str::to_owned);
    let got = figures(&[&file, "--from-block-tokens", "16"]);
    assert_eq!(reuse(&got), reuse(&want));
    assert!(reuse(&want).is_some());
}

// Mooncake's requests converted to a journal and back are the same, except for spaces.
#[test]
fn convert() {
    let folder = Folder::new("workload-convert");
    let (trace, journal) = (fixture("mooncake_500.jsonl"), folder.file("journal.jsonl.gz"));
    text(&["convert", &trace, "--to", "journal", "-o", &journal]);
    let back = text(&["convert", &journal, "--to", "mooncake"]);
    let plain = std::fs::read_to_string(&trace).expect("a fixture").replace(' ', "");
    assert_eq!(back, plain);
    let regions = text(&["stats", &trace, "--regions", "us=1,eu=1", "--limit", "100", "--json"]);
    let stats: serde_json::Value = serde_json::from_str(&regions).expect("it is JSON");
    let count = |name: &str| stats["regions"][name].as_u64().unwrap_or(0);
    assert_eq!(count("us") + count("eu"), 100);
    assert_eq!(stats["requests"], 100);
}

// A truncated compressed file is an error, and with --lenient it is read as far as it goes.
#[test]
fn cut_short() {
    let folder = Folder::new("workload-cut");
    let file = folder.file("cut.jsonl.gz");
    text(&["convert", &fixture("mooncake_500.jsonl"), "--to", "mooncake", "-o", &file]);
    let whole = std::fs::read(&file).expect("it was written");
    std::fs::write(&file, &whole[..whole.len() / 2]).expect("a folder");
    let output = meridian(&["stats", &file]);
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("cut short"));
    let stats = text(&["stats", &file, "--lenient", "--json"]);
    let stats: serde_json::Value = serde_json::from_str(&stats).expect("it is JSON");
    let read = stats["requests"].as_u64().unwrap_or(0);
    assert!((100..400).contains(&read), "{read} of 500");
}

// Every error names the file, the place and the remedy.
#[test]
fn errors() {
    let folder = Folder::new("workload-errors");
    let file = folder.file("bad.jsonl");
    let good = "{\"timestamp\": 0, \"input_length\": 1, \"output_length\": 1, \"hash_ids\": [0]}\n";
    let fails = |args: &[&str]| {
        let output = meridian(args);
        assert!(!output.status.success(), "{args:?} succeeds");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    std::fs::write(&file, format!("{good}{}", good.replace("1,", "-1,"))).expect("a folder");
    let error = fails(&["stats", &file]);
    assert!(error.contains("bad.jsonl") && error.contains("line 2: input_length is -1"), "{error}");
    assert!(error.contains("--lenient"), "{error}");
    let output = meridian(&["stats", &file, "--lenient"]);
    assert!(output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("1 bad lines were skipped"));

    std::fs::write(&file, &good[..40]).expect("a folder");
    assert!(fails(&["stats", &file]).contains("cut short"));
    assert!(fails(&["stats", &file, "--lenient"]).contains("every line is bad"));
    std::fs::write(&file, "hello\n").expect("a folder");
    assert!(fails(&["stats", &file]).contains("--from"));
    assert!(fails(&["stats", &folder.file("none")]).contains("cannot open"));
    assert!(fails(&["stats", "wildchat"]).contains("--generator wildchat"));
    assert!(fails(&["stats"]).contains("--generator"));
    assert!(fails(&["stats", "--generator", "sesions"]).contains("workload list"));
    let unknown = ["write", "--generator", "sessions", "--set", "turn=3"];
    assert!(fails(&unknown).contains("no parameter"));
    assert!(
        fails(&["write", "--generator", "sessions", "--format", "azure"]).contains("input format")
    );
    let half = ["stats", "--generator", "sessions", "--clients", "us=1,2"];
    assert!(fails(&half).contains("us=40,eu=20"));
}
