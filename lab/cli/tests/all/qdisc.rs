//! `meridian flow qdisc` as a command: what it prints without rights, and its errors.

use std::process::{Command, Output};

fn qdisc(args: &str) -> Output {
    let mut command = Command::new(crate::programs::MERIDIAN);
    let command = command.args(["flow", "qdisc"]).args(args.split_whitespace());
    command.output().expect("the binary was built for this test")
}

fn printed(args: &str) -> String {
    let output = qdisc(args);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && errors.is_empty(), "{args}: {errors}");
    String::from_utf8(output.stdout).expect("it writes UTF-8")
}

// Without --apply the commands are printed: comments and `tc`, nothing else.
#[test]
fn commands_are_printed() {
    let text = printed("--dev eth0 --rate 24.5Gbps");
    assert!(text.lines().all(|line| line.starts_with("# ") || line.starts_with("tc ")), "{text}");
    assert!(text.contains("tc qdisc replace dev eth0 root handle 4d44: htb default 9\n"));
    assert!(text.contains("rate 2450mbit ceil 24500mbit"), "KV has its floor: {text}");
    let ets = printed("--dev eth0 --kind ets --classes eight --floor 20%");
    assert!(ets.contains("# Weights: collectives 75, KV 20, unmarked 5."), "{ets}");
}

// Settings and templates need no device.
#[test]
fn settings_and_templates_are_printed() {
    assert!(printed("--env").contains("export NCCL_IB_TC=174\n"));
    for system in ["sonic", "cumulus", "eos", "nxos", "junos"] {
        assert!(printed(&format!("--switch {system} --classes eight")).contains("85"), "{system}");
    }
    assert!(printed("--card --dev eth0").contains("dcb app replace dev eth0 dscp-prio 43:5\n"));
}

// Each mistake names its field, the value and the remedy, and prints no command.
#[test]
fn mistakes_are_named() {
    for (args, expected) in [
        ("", "--dev"),
        ("--dev lo", "--rate: the kernel knows no rate of `lo`"),
        ("--dev eth0 --rate 25GB/s", "`25GB/s` is not a rate"),
        ("--dev eth0 --rate 1Gbps --floor 0%", "write 1% to 50%"),
        ("--dev eth0 --rate 1Gbps --floor 46% --unmarked 5%", "46% and 5%"),
        ("--switch sonic --floor 46% --unmarked 5%", "46% and 5%"),
        ("--dev eth0;id --rate 1Gbps", "is not the name of a network device"),
        ("--dev eth0 --rate 1Gbps --kind ets", "takes no rate"),
        ("--dev eth0 --apply --remove", "cannot be used with"),
        ("--dev eth0 --replace", "--apply"),
    ] {
        let output = qdisc(args);
        let errors = String::from_utf8(output.stderr).expect("it writes UTF-8");
        assert!(!output.status.success() && output.stdout.is_empty(), "{args}");
        assert!(errors.contains(expected), "{args}: {errors}");
    }
}
