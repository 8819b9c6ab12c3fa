//! `meridian import`: files of other programs, and the configurations made from them.
//!
//! The scenarios hold the files, each with the configuration, the notes and the error that it gives.
//! In every one of them all secrets contain the same word, and no output may contain it.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use datadriven::{TestCase, TestFile};
use meridian_config::Gateway;

/// Part of every secret in the scenarios.
const SECRET: &str = "s3cret";

/// A folder that is removed at the end of its test.
struct Dir(PathBuf);

impl Dir {
    fn new(name: &str) -> Dir {
        let dir = std::env::temp_dir().join(format!("meridian-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(&dir).expect("makes a folder");
        Dir(dir)
    }

    fn text(&self) -> &str {
        self.0.to_str().expect("is text")
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn meridian(args: &[&str], input: &[u8]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_meridian"));
    command.args(args).env_remove("ENGINE_KEY").stdin(Stdio::piped());
    let mut child =
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary runs");
    let mut stdin = child.stdin.take().expect("is a pipe");
    // A program that refuses its arguments does not read stdin.
    let _ = stdin.write_all(input);
    drop(stdin);
    child.wait_with_output().expect("it ends")
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).expect("is text")
}

fn certs(dir: &Dir) {
    let fleet = dir.0.join("fleet");
    let fleet = fleet.to_str().expect("is text");
    for args in [
        vec!["certs", "init", fleet, "--fleet", "prod"],
        vec!["certs", "issue", fleet, "--gateway", "gw", "--region", "local"],
    ] {
        assert!(meridian(&args, b"").status.success(), "{args:?}");
    }
}

/// Runs an import and shows what it prints; checks what holds for every output.
fn import(dir: &Dir, case: &TestCase) -> String {
    let format = case.args.keys().find(|name| *name != "file").expect("a format is named");
    let input = case.input.replace("DIR", dir.text());
    let output = match case.args.get("file") {
        None => meridian(&["import", format, "-"], input.as_bytes()),
        Some(names) => {
            let path = dir.0.join(&names[0]);
            std::fs::write(&path, input).expect("writes");
            meridian(&["import", format, path.to_str().expect("is text")], b"")
        }
    };
    let success = output.status.success();
    let (yaml, said) = (text(output.stdout), text(output.stderr));
    assert!(!yaml.contains(SECRET) && !said.contains(SECRET), "a secret is shown: {yaml}{said}");
    if success {
        let config = Gateway::read(&yaml).unwrap_or_else(|error| panic!("{error}: {yaml}"));
        let printed = Gateway::read(&config.print().expect("prints")).expect("reads back");
        assert_eq!(printed, config);
        let path = dir.0.join("imported.yaml");
        std::fs::write(&path, &yaml).expect("writes");
        let check = meridian(&["check", "-c", path.to_str().expect("is text")], b"");
        assert!(check.status.success(), "{}", text(check.stderr));
    }
    let shown = format!("{yaml}{}{said}", if success { "" } else { "fails\n" });
    shown.replace(dir.text(), "DIR")
}

fn scenarios(name: &str) {
    datadriven::walk(
        &format!("../../product/import/tests/scenarios/{name}"),
        |file: &mut TestFile| {
            let dir = Dir::new(&format!("import-{name}"));
            certs(&dir);
            file.run(|case| match case.directive.as_str() {
                "import" => import(&dir, case),
                other => panic!("{other} is not a command; use import"),
            });
        },
    );
}

// nginx: upstreams, locations, timeouts, TLS, access control, and the output of `nginx -T`.
#[test]
fn nginx() {
    scenarios("nginx");
}

// LiteLLM: deployments, settings, keys, and models that stay with it.
#[test]
fn litellm() {
    scenarios("litellm");
}

// smg, sglang-router and vllm-router: command lines in scripts, units and YAML. Their cache_aware is a
// policy that packages have.
#[cfg(feature = "rivals")]
#[test]
fn smg() {
    meridian_config::policies::install(meridian_rivals::EVERY);
    scenarios("smg");
}

// Files that are not configurations give an error that shows nothing of their contents.
#[test]
fn bad_files() {
    let dir = Dir::new("import-bad");
    let path = dir.0.join("file");
    let shown = path.to_str().expect("is text");
    let nested = "s3cret { ".repeat(50_000);
    let deep = format!("a: {}s3cret", "[".repeat(50_000));
    let large = vec![b'a'; (1 << 20) + 1];
    let cases: [(&[u8], &str); 6] = [
        (b"", "the file is empty"),
        (b" \n\n", "the file is empty"),
        (b"\x7fELF\x02\x01\0\0s3cret", "has control characters"),
        (b"\xff\xfes3cret", "is not UTF-8"),
        (&large, "is larger than 1048576 bytes"),
        (b"s3cret", ""),
    ];
    for format in ["nginx", "litellm", "smg"] {
        for (bytes, part) in cases.iter().chain(&[(nested.as_bytes(), ""), (deep.as_bytes(), "")]) {
            std::fs::write(&path, bytes).expect("writes");
            let output = meridian(&["import", format, shown], b"");
            let said = text(output.stderr);
            assert_eq!(output.status.code(), Some(1), "{format}: {said}");
            assert!(output.stdout.is_empty() && said.starts_with("error: "), "{format}: {said}");
            assert!(said.contains(part) && !said.contains(SECRET), "{format}: {part}: {said}");
        }
        let output = meridian(&["import", format, dir.text()], b"");
        assert!(text(output.stderr).contains("cannot read"), "a folder is not a file");
        let gone = Path::new(dir.text()).join("none");
        let output = meridian(&["import", format, gone.to_str().expect("is text")], b"");
        assert!(text(output.stderr).contains("cannot read"), "a missing file");
    }
}

// A key in an environment variable becomes its hash, and an address in one is used.
#[test]
fn environment() {
    let yaml = "model_list:\n  - {model_name: a, litellm_params: {model: openai/a, api_base: os.environ/IMPORT_BASE}}\n\
                general_settings: {master_key: os.environ/IMPORT_KEY}\n";
    let dir = Dir::new("import-environment");
    let path = dir.0.join("config.yaml");
    std::fs::write(&path, yaml).expect("writes");
    let key = "sk-s3cret-of-more-than-twenty-characters";
    let output = Command::new(env!("CARGO_BIN_EXE_meridian"))
        .args(["import", "litellm", path.to_str().expect("is text")])
        .env("IMPORT_KEY", key)
        .env("IMPORT_BASE", "http://10.0.0.1:8000/v1")
        .output()
        .expect("the binary runs");
    let config = Gateway::read(&text(output.stdout)).expect("is a configuration");
    let hash = text(meridian(&["tenant-key"], key.as_bytes()).stdout);
    assert_eq!(config.tenants[0].keys[0].to_string(), hash.trim());
    assert_eq!(config.replicas[0].url, "http://10.0.0.1:8000");
    assert!(!text(output.stderr).contains(SECRET));
}

/// The blocks of code in a page, each with its language.
#[cfg(feature = "rivals")]
fn blocks(page: &str) -> Vec<(&str, &str)> {
    let parts: Vec<&str> = page.split("```").collect();
    parts.chunks(2).filter_map(|pair| pair.get(1)?.split_once('\n')).collect()
}

// The examples of docs/migration.md: importing each file gives the configuration that the page
// shows after it, except keys, which no import prints, and the admin port, which no file sets.
#[cfg(feature = "rivals")]
#[test]
fn documented_examples() {
    meridian_config::policies::install(meridian_rivals::EVERY);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/migration.md");
    let page = std::fs::read_to_string(path).expect("the page is there");
    let blocks = blocks(&page);
    let mut compared = Vec::new();
    for pair in blocks.windows(2) {
        let [(language, before), ("yaml", after)] = pair else { continue };
        let format = match *language {
            "nginx" => "nginx",
            "yaml" if before.contains("model_list:") => "litellm",
            "sh" if before.contains("--worker-urls") => "smg",
            _ => continue,
        };
        let output = meridian(&["import", format, "-"], before.as_bytes());
        let mut imported = Gateway::read(&text(output.stdout)).expect("is a configuration");
        let shown = Gateway::read(after).expect("is a configuration");
        imported.admin = shown.admin;
        imported.engine_key.clone_from(&shown.engine_key);
        imported.tenants.clone_from(&shown.tenants);
        assert_eq!(imported, shown, "{before}");
        compared.push(format);
    }
    assert_eq!(compared, ["nginx", "litellm", "smg", "smg"]);
}
