//! `meridian plan` as a command.

use std::path::Path;
use std::process::{Command, Stdio};

// If the reader closes the pipe, as `| head` does, the files are written and there is no error.
#[test]
fn files_are_written_although_stdout_is_closed() {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("unread-plan.yaml");
    std::fs::remove_file(&file).ok();
    let mut command = Command::new(env!("CARGO_BIN_EXE_meridian"));
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
    let mut command = Command::new(env!("CARGO_BIN_EXE_meridian"));
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
    let mut command = Command::new(env!("CARGO_BIN_EXE_meridian"));
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
