//! `meridian what-if` as a command.

use std::process::{Command, Output};

use super::process::Folder;

fn meridian(args: &[&str]) -> Output {
    let mut command = Command::new(crate::programs::MERIDIAN);
    command.args(args).output().expect("the binary was built for this test")
}

// The printed command repeats the report to the byte: every default is in it.
#[test]
fn the_printed_command_repeats_the_report() {
    let folder = Folder::new("what-if");
    let out = folder.0.join("it's").display().to_string();
    let given = [
        "what-if",
        "sessions",
        "--requests",
        "60",
        "--rate",
        "6",
        "--gpu",
        "l4",
        "--replicas",
        "1..2",
        "--policies",
        "default,round_robin",
        "--warmup",
        "2s",
        "--most",
        "4",
        "--out",
        &out,
    ];
    let first = meridian(&given);
    let text = String::from_utf8(first.stdout).expect("it writes UTF-8");
    assert!(first.status.success(), "{}", String::from_utf8_lossy(&first.stderr));
    let line = text.lines().find_map(|line| line.strip_prefix("Repeat it with: "));
    let words = shlex::split(line.expect("the command is printed")).expect("it is quoted");
    assert_eq!(words[0], "meridian");
    for flag in ["--price", "--slo", "--queue-wait", "--seeds", "--model", "--tp"] {
        assert!(words.iter().any(|word| word == flag), "{flag}: {text}");
    }
    let again: Vec<&str> = words[1..].iter().map(String::as_str).collect();
    let second = meridian(&again);
    assert_eq!(String::from_utf8_lossy(&second.stdout), text);
}

// A mistake in an option names it, its value and the remedy.
#[test]
fn mistakes_are_reported() {
    for (args, part) in [
        (&["nowhere.jsonl"][..], "TRACE: cannot open nowhere.jsonl; name a file"),
        (&["sessions", "--policies", "round_robbin"], "`round_robbin` is unknown"),
        (&["sessions", "--gpu", "abacus"], "`abacus` is not a GPU with a profile"),
        (&["sessions", "--replicas", "8..4"], "write the smaller number first"),
        (&["sessions", "--speed", "2"], "--speed: a generator has none; use --rate"),
        (&["azure", "--rate", "2"], "--rate: a trace has its own; use --speed"),
        (&["sessions", "--price", "h100"], "price: h100; write KIND=PRICE"),
        (&["sessions", "--regions", "nowhere.yaml"], "--regions nowhere.yaml"),
        (&["azure", "--from", "azure"], "--from: is for files"),
        (&["azure", "--price", "h100=1,l4=2"], "--price: no replica has l4"),
        (&["azure", "--pools", "0.5,0.5"], "pools: pools 0.5 is there twice"),
        (&["azure", "--model", "llama-3.1-8"], "unknown; did you mean `llama-3.1-8b`? Use one of"),
        (&["azure", "--slo", "ttft=1s,ttft=2s"], "ttft is there twice; give it once"),
        (&["azure", "--price", "h100=1,h100=2"], "price of h100: 2; give each kind once"),
        (&["azure", "--out", "/dev/null/x"], "--out /dev/null/x: cannot make this folder"),
        (&["-"], "standard input can't be read again"),
    ] {
        let output = meridian(&[&["what-if"], args].concat());
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && error.contains(part), "{args:?}: {error}");
    }
}
