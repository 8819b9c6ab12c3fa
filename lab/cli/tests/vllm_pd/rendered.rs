//! vLLM's own parser reads every command that `meridian plan --render` writes.

use std::process::Command;

use super::common::fleet;
use super::engines::{python, run_tool};

const PARSER: &str = include_str!("parse.py");

/// Plans for the built-in testbed: single GPUs, and an instance on two servers.
pub(super) async fn every_command_is_read() {
    let (fleet, python) = (fleet(), python().await);
    for model in ["llama-3.1-8b", "opt-66b"] {
        let folder = fleet.dir().join(model);
        let mut command = Command::new(crate::programs::MERIDIAN);
        command.args(["plan", "--topology", "heroserve-testbed", "--model", model, "--render"]);
        let done = command.arg(&folder).output().expect("the program starts");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        let script = folder.join("vllm.sh");
        let text = std::fs::read_to_string(&script).expect("it was written");
        let read = run_tool(&fleet, &python, ("parse.py", PARSER), &[script.as_ref()]);
        assert_eq!(read.lines().count(), text.matches("exec vllm serve ").count(), "{read}");
        assert!(!read.is_empty(), "{text}");
    }
}
