//! `meridian plan` as a command.

use std::path::Path;
use std::process::{Command, Stdio};

// If the reader closes the pipe, as `| head` does, the files are written and there is no error.
#[test]
fn files_are_written_although_stdout_is_closed() {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("unread-plan.yaml");
    std::fs::remove_file(&file).ok();
    let mut command = Command::new(crate::programs::MERIDIAN);
    command.args(["plan", "--topology", "heroserve-testbed", "--model", "opt-66b", "--out"]);
    let mut plan =
        command.arg(&file).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(plan.stdout.take());
    let ended = plan.wait_with_output().unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    assert!(std::fs::read_to_string(&file).unwrap().contains("instances"));
}

/// Plans for the testbed and renders into a folder; whether that worked, and stderr.
fn render(model: &str, folder: &Path, more: &[&str]) -> (bool, String) {
    let mut command = Command::new(crate::programs::MERIDIAN);
    command.args(["plan", "--topology", "heroserve-testbed", "--model", model, "--render"]);
    let ended = command.arg(folder).args(more).output().unwrap();
    (ended.status.success(), String::from_utf8(ended.stderr).unwrap())
}

// The gateway accepts the file that a plan renders for it.
#[test]
fn the_rendered_gateway_file_is_valid() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("rendered");
    let (done, stderr) = render("llama-3.1-8b", &folder, &[]);
    assert!(done, "{stderr}");
    let mut command = Command::new(crate::programs::MERIDIAN);
    let ended = command.args(["check", "-c"]).arg(folder.join("gateway.yaml")).output().unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
}

// Without weights that engines can load, nothing is rendered, and the error names the option.
#[test]
fn a_model_without_weights_is_not_rendered() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("unrendered");
    let (done, stderr) = render("opt-175b", &folder, &[]);
    assert!(!done && stderr.contains("--model-id"), "{stderr}");
    assert!(!folder.exists());
}

/// Runs `meridian plan` in a folder of temporary files; whether it worked, stdout and stderr.
fn plan(args: &[&str]) -> (bool, String, String) {
    let mut command = Command::new(crate::programs::MERIDIAN);
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let ended = command.current_dir(folder).arg("plan").args(args).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (ended.status.success(), text(ended.stdout), text(ended.stderr))
}

/// Options of a small task.
const TASK: [&str; 8] = [
    "--topology",
    "heroserve-testbed",
    "--model",
    "llama-3.1-8b",
    "--ttft",
    "1s",
    "--tpot",
    "60ms",
];

/// A journal of this many requests, ten a second.
fn journal(name: &str, count: u32, prompt: u32, output: u32) -> String {
    let mut text = "{\"meridian_journal\":1,\"block_tokens\":512}\n".to_owned();
    for nth in 0..count {
        let at = 1_795_688_100_000_u64 + 100 * u64::from(nth);
        let (prompt, output) = (prompt + nth % 7, output + nth % 5);
        text += &format!(
            "{{\"timestamp\":{at},\"input_length\":{prompt},\"output_length\":{output},\"outcome\":\"done\"}}\n"
        );
    }
    std::fs::write(Path::new(env!("CARGO_TARGET_TMPDIR")).join(name), text).unwrap();
    name.to_owned()
}

// Beside a plan stand its cost, aggregated serving on the same GPUs, and a sentence on which is
// better.
#[test]
fn a_plan_says_whether_it_is_worth_it() {
    let (done, said, stderr) = plan(
        &[&TASK[..], &["--top", "1", "--rate", "10", "--price", "a100-40g=2,v100=0.5"]].concat(),
    );
    assert!(done, "{stderr}");
    for text in [
        "GPU-hours a million requests",
        "price: ",
        " an hour, ",
        "at 10.000/s: ",
        "aggregated on the same GPUs: ",
        "aggregated tp ",
    ] {
        assert!(said.contains(text), "{text}: {said}");
    }
    let last = said.lines().last().unwrap();
    assert!(
        ["separate instances serve", "aggregated serving serves", "equal within"]
            .iter()
            .any(|start| last.trim().starts_with(start)),
        "{last}"
    );
}

// Lengths and rate come from a journal; what is assumed is said.
#[test]
fn lengths_come_from_a_journal() {
    let journal = journal("lengths.jsonl", 400, 700, 90);
    let from = ["--top", "1", "--lengths-from", &journal, "--measured-rate"];
    let (done, said, stderr) = plan(&[&TASK[..], &from].concat());
    assert!(done, "{stderr}");
    assert!(said.starts_with("lengths.jsonl: 400 requests, prompts of 703 tokens"), "{said}");
    assert!(said.contains("10.000 requests/s\nassumed: every prompt is computed whole"), "{said}");
    let (done, _, stderr) =
        plan(&[&TASK[..], &["--lengths-from", &journal, "--prompt", "9"]].concat());
    assert!(!done && stderr.contains("cannot be used with"), "{stderr}");
}

// A sweep has a row for each rate, and writes figures and a plot. It shows its progress, and finds out
// at once that a file can't be written.
#[test]
fn a_sweep_writes_its_figures() {
    let files = [
        "--rates",
        "2..10/3",
        "--csv",
        "sweep.csv",
        "--svg",
        "sweep.svg",
        "--price",
        "a100-40g=2,v100=1",
    ];
    let (done, said, stderr) = plan(&[&["sweep"], &TASK[..], &files].concat());
    assert!(done, "{stderr}");
    assert!(stderr.contains("plan sweep: 3/3 10.000 requests/s: separate "), "{stderr}");
    let (done, _, late) =
        plan(&[&["sweep"], &TASK[..], &["--rates", "2", "--csv", "/nowhere/a.csv"]].concat());
    let is_early = late.contains("--csv /nowhere/a.csv: cannot write it: make its folder");
    assert!(!done && is_early && !late.contains("plan sweep: 1"), "{late}");
    assert!(said.lines().any(|line| line.trim_start().starts_with("6.000 ")), "{said}");
    let read = |name: &str| {
        std::fs::read_to_string(Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)).unwrap()
    };
    let csv = read("sweep.csv");
    let rows: Vec<&str> = csv.lines().collect();
    assert!(rows.len() == 7 && rows[0].starts_with("rate_rps,instances,gpus,"), "{csv}");
    assert!(rows[1].starts_with("2,separate,") && rows[6].starts_with("10,aggregated,"), "{csv}");
    let svg = read("sweep.svg");
    assert!(svg.starts_with("<svg ") && svg.contains("Price"), "{svg}");
}

// A running plan whose prompts grow is revised: the diff keeps its instances, and the new file is a
// valid plan. Without a lost instance the others stay.
#[test]
fn a_running_plan_is_revised() {
    let (done, _, stderr) = plan(
        &[
            &TASK[..],
            &["--rate", "10", "--prompt", "700", "--output", "90", "--out", "running.yaml"],
        ]
        .concat(),
    );
    assert!(done, "{stderr}");
    let running = ["revise", "running.yaml", "--topology", "heroserve-testbed"];
    let same = journal("same.jsonl", 2000, 600, 80);
    let (done, said, stderr) = plan(&[&running[..], &["--journal", &same]].concat());
    assert!(done, "{stderr}");
    assert!(said.contains("it can stay as it is") && !said.contains("start"), "{said}");
    let long = journal("long.jsonl", 2000, 3500, 90);
    let (done, said, stderr) =
        plan(&[&running[..], &["--journal", &long, "--out", "revised.yaml"]].concat());
    assert!(done, "{stderr}");
    assert!(said.contains("K_in is 3503 tokens a request, 700 in the plan"), "{said}");
    assert!(said.contains("not enough for 10.000") && said.contains("\n+ start "), "{said}");
    let (done, _, stderr) = plan(&["check", "revised.yaml", "--topology", "heroserve-testbed"]);
    assert!(done, "{stderr}");
    let (done, said, stderr) = plan(&[&running[..], &["--without", "decode-0"]].concat());
    assert!(done, "{stderr}");
    assert!(said.contains("\n- lost decode-0 on "), "{said}");
}

// Errors name the option, the value and a remedy.
#[test]
fn wrong_questions_are_answered_with_a_remedy() {
    let empty = journal("empty.jsonl", 0, 1, 1);
    let long = journal("beyond.jsonl", 5, 200_000, 10);
    std::fs::write(Path::new(env!("CARGO_TARGET_TMPDIR")).join("nothing.jsonl"), "").unwrap();
    let (done, _, _) = plan(&[&TASK[..], &["--out", "asked.yaml"]].concat());
    assert!(done);
    let revise = ["revise", "asked.yaml", "--topology", "heroserve-testbed"];
    for (args, expected) in [
        (
            [&TASK[..], &["--lengths-from", &empty]].concat(),
            "journal: no answered request; give a journal",
        ),
        ([&TASK[..], &["--lengths-from", &long]].concat(), "5 are longer than the model's context"),
        ([&TASK[..], &["--lengths-from", "nothing.jsonl"]].concat(), "it is empty"),
        ([&TASK[..], &["--lengths-from", "none.jsonl"]].concat(), "cannot open none.jsonl"),
        ([&TASK[..], &["--price", "h1000=2"]].concat(), "price: h1000=2; use h100; known are"),
        ([&TASK[..], &["--price", "v100=-2"]].concat(), "price of v100: -2; give a number from 0"),
        ([&TASK[..], &["--price", "v100=NaN"]].concat(), "price of v100: NaN; give"),
        (
            [&TASK[..], &["--price", "listed"]].concat(),
            "price of v100: none; the topology has such",
        ),
        (
            [&["sweep"], &TASK[..], &["--rates", "9..3/4"]].concat(),
            "rates: 9..3/4; begin with the lower",
        ),
        (
            [&revise[..], &["--without", "prefill-77"]].concat(),
            "without: prefill-77; the plan has prefill-0",
        ),
        (revise.to_vec(), "nothing has changed; give --journal, --without or --rate"),
        ([&revise[..], &["--journal", &empty]].concat(), "no answered request"),
        ([&revise[..], &["--rate", "-3"]].concat(), "rate: -3; use requests a second above 0"),
    ] {
        let (done, said, stderr) = plan(&args);
        assert!(!done && stderr.contains(expected), "{args:?}\n{said}{stderr}");
    }
}
