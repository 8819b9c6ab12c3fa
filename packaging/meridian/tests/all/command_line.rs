//! Habits of a command line: a file without `-c`, lists as JSON, and errors that say what to do.

use std::process::{Command, Output};

use serde_json::Value;

fn meridian(args: &[&str]) -> Output {
    let output = Command::new(env!("CARGO_BIN_EXE_meridian")).args(args).output();
    output.expect("the binary runs")
}

fn said(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

// Defect command-line: `check FILE` is `check -c FILE`, and so it is for the other commands that read a file.
#[test]
fn a_file_needs_no_flag() {
    let file = std::env::temp_dir().join(format!("meridian-file-{}.yaml", std::process::id()));
    let yaml = "version: 1\nreplicas: [{url: 'http://a:1'}]\nheld: {max_wait: 20m}\n";
    std::fs::write(&file, yaml).unwrap();
    let path = file.to_str().unwrap();
    for args in
        [vec!["check", path], vec!["check", "-c", path], vec!["check", path, "--config", path]]
    {
        let output = meridian(&args);
        assert_eq!(output.status.success(), args.len() < 4, "{args:?}: {}", said(&output.stderr));
        if args.len() < 4 {
            assert!(said(&output.stdout).contains("is valid"), "{args:?}");
            // A setting that is probably a mistake is reported with its line.
            let warning = format!("warning: {path}:3: held.max_wait: 20m is longer than");
            assert!(said(&output.stderr).contains(&warning), "{}", said(&output.stderr));
        }
    }
    assert!(said(&meridian(&["config", "print", path]).stdout).contains("max_wait: 20m"));
    for command in ["gateway", "control"] {
        let output = meridian(&[command, "/no/such/file.yaml"]);
        let error = said(&output.stderr);
        assert!(error.contains("/no/such/file.yaml: there is no such file"), "{command}: {error}");
    }
    std::fs::remove_file(&file).unwrap();
    for command in ["gateway", "check", "control"] {
        let error = said(&meridian(&[command]).stderr);
        assert!(error.contains("--config <FILE>"), "{command}: {error}");
    }
}

// Defect command-line: each command that lists something prints JSON, too.
#[test]
fn lists_are_json_too() {
    for command in ["policies", "engines"] {
        let output = meridian(&[command, "--json"]);
        let read: Value = serde_json::from_slice(&output.stdout).unwrap();
        let plain = said(&meridian(&[command]).stdout);
        let names: Vec<&str> =
            read.as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
        assert_eq!(names, plain.lines().collect::<Vec<_>>(), "{command}");
    }
    for list in [
        ["replicas", "list"],
        ["replicas", "intervals"],
        ["gateways", "list"],
        ["gateways", "intervals"],
        ["regions", "list"],
        ["regions", "names"],
        ["policy", "show"],
    ] {
        let help = said(&meridian(&[list[0], list[1], "--help"]).stdout);
        assert!(help.contains("--json"), "{list:?}: {help}");
    }
}

// Defect command-line: `explain` without a gateway says what to start, or to name.
#[test]
fn nobody_answers() {
    for args in [["explain", "--admin"], ["intervals", "--admin"]] {
        let output = meridian(&[args[0], args[1], "http://127.0.0.1:1"]);
        let error = said(&output.stderr);
        let says = "; start `meridian gateway`, or name its admin address with --admin";
        assert!(error.contains("no gateway answers at http://127.0.0.1:1/admin/"), "{error}");
        assert!(error.contains(says), "{error}");
    }
}

// Defect command-line: the version has the commit if there is one, and stands alone if not.
#[test]
fn the_version_is_known() {
    let version = said(&meridian(&["--version"]).stdout);
    assert!(version.starts_with(&format!("meridian {}", env!("CARGO_PKG_VERSION"))), "{version}");
    assert!(!version.contains("unknown") && !version.contains('?'), "{version}");
}
