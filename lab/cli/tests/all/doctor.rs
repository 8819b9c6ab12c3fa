//! `meridian flow doctor` as a command: wrong arguments end it before it watches anything.

use std::process::Command;

// Each error names the value and the remedy, and nothing else is printed.
#[test]
fn wrong_arguments() {
    for (args, expected) in [
        (&["--for", "0s"][..], "--for 0s: watch for 1s to 1h"),
        (&["--for", "2h"], "--for 2h: watch for 1s to 1h"),
        (&["--card", "no-card"], "no card is called `no-card`; use one of "),
        (
            &["--rate", "lo=1Gbps"],
            "`lo` is not watched, as it is the loopback; name it with --card",
        ),
        (&["--rate", "eth0=25"], "`25` is not a rate: write a number above 0 with a unit"),
        (&["--rate", "25Gbps"], "write the card and its rate, as in eth0=25Gbps"),
        (&["--kv-layers", "2"], "`2` layers were not simulated; use 1, 4 or all"),
    ] {
        let mut command = Command::new(crate::programs::MERIDIAN);
        let output = command.args(["flow", "doctor"]).args(args).output();
        let output = output.expect("the binary was built for this test");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && output.stdout.is_empty(), "{args:?}: {said}");
        assert!(said.contains(expected), "{args:?}: {said}");
    }
}
