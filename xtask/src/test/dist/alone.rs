//! `meridian` without `meridian-lab`: the product, as `cargo install` of its package gives it.

use anyhow::ensure;

use crate::cmd::stdout_of;
use crate::dist::Made;
use crate::dist::programs::MERIDIAN;
use crate::house::House;

// A command of the laboratory ends with one sentence that says what to install; the product's own
// commands work.
pub(super) fn says_what_to_install(_: &House, made: &Made) -> anyhow::Result<()> {
    let folder = made.place.stage("test-alone")?;
    made.programs.copy_one_to(&MERIDIAN, &folder)?;
    let call = |args: &[&str]| {
        let mut command = std::process::Command::new(folder.join(MERIDIAN.name));
        command.args(args).env_clear().env("PATH", &folder);
        command
    };
    let output = call(&["up", "--for", "1s"]).output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    let (status, printed) = (output.status, String::from_utf8_lossy(&output.stdout));
    ensure!(status.code() == Some(1), "`meridian up` ended with {status}: {said}");
    ensure!(printed.is_empty() && said.lines().count() == 1, "`meridian up`: {printed}{said}");
    for part in ["needs meridian-lab", "pip install meridian-llm", ".deb"] {
        ensure!(said.contains(part), "`meridian up` does not say {part}: {said}");
    }
    let script = stdout_of(call(&["completions", "bash"]))?;
    ensure!(script.contains("gateway"), "`meridian completions bash` lacks the gateway");
    Ok(())
}
