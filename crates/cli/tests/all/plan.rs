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
