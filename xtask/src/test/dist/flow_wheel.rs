//! The wheel of the KV gate.

use anyhow::ensure;

use crate::cmd::{cmd, stdout_of};
use crate::dist::Made;
use crate::house::House;

/// Opens a gate, sends a transfer through it, and prints what the library counted.
const USE: &str = "
from meridian_flow import Gate, Stage
gate = Gate([{'name': 'eth0/out', 'gbps': 25}])
with gate.request(ttft_left_ms=500) as request:
    for at, size in request.transfer(Stage.HANDOFF, 600_000).chunks():
        pass
print(gate.is_open, gate.counters())
";

// pip installs the file without an index or a compiler, and its library gives permits.
pub(super) fn gives_permits(_: &House, made: &Made) -> anyhow::Result<()> {
    let folder = made.place.stage("test-flow-wheel")?;
    stdout_of(cmd(&folder, "python3", &["-m", "venv", "env"]))?;
    let python = folder.join("env/bin/python");
    let pip = ["-m", "pip", "install", "--no-index", "--disable-pip-version-check"];
    let mut install = cmd(&folder, &python, &pip);
    install.arg(&made.flow_wheel);
    stdout_of(install)?;
    let mut used = cmd(&folder, &python, &["-c", USE]);
    used.env_remove("MERIDIAN_FLOW_LIBRARY");
    let printed = stdout_of(used)?;
    let expected =
        "True {'transfers': 1, 'gated_bytes': 600000, 'ungated_bytes': 0, 'problems': 0}";
    ensure!(printed.trim() == expected, "the gate of the wheel printed `{}`", printed.trim());
    Ok(())
}
