//! `meridian plan verify` on a real network: four servers in namespaces, and one link made slow.

mod network;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use network::Network;

const SERVERS: usize = 4;
const MERIDIAN: &str = crate::programs::MERIDIAN;
const TOKEN: &str = "a token of this test";
const TOPOLOGY: &str = "version: 1
name: four
units:
- servers:
  - {count: 4, name: s, gpu: l40s, gpus: 1, cards: 1, card_rate: 100Mb/s}
";
/// Most attempts: on a busy machine a pair may say that a processor was its limit.
const ATTEMPTS: usize = 3;

/// Probes that end with the test.
struct Probes(Vec<Child>);

impl Probes {
    /// Starts one on each server by hand, and waits until they listen.
    fn start(network: &Network) -> Probes {
        let probe = |n: usize| {
            let mut command = Command::new("ip");
            command.args([
                "netns",
                "exec",
                &network.name(n),
                MERIDIAN,
                "plan",
                "probe",
                "--listen",
            ]);
            command.arg(format!("{}:7000", network.address(n))).env("MERIDIAN_PROBE_TOKEN", TOKEN);
            command.stdout(Stdio::piped()).spawn().expect("ip runs")
        };
        let mut probes = Probes((0..SERVERS).map(probe).collect());
        for child in &mut probes.0 {
            let mut line = String::new();
            let mut out = std::io::BufReader::new(child.stdout.as_mut().expect("is piped"));
            std::io::BufRead::read_line(&mut out, &mut line).expect("is text");
            assert!(line.starts_with("listening on 10.213.82."), "{line}");
        }
        probes
    }
}

impl Drop for Probes {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A folder of this test.
fn folder() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("verify");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("four.yaml"), TOPOLOGY).unwrap();
    folder
}

fn text(output: &Output) -> String {
    let parts = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    parts.concat()
}

/// Plans for the topology; the plan's file, and a server that computes prompts.
fn planned(folder: &Path, topology: &str, out: &str) -> usize {
    let mut command = Command::new(MERIDIAN);
    command.current_dir(folder).args(["plan", "--topology", topology, "--model", "llama-3.1-8b"]);
    command.args(["--prompt", "60", "--output", "40", "--ttft", "20s", "--tpot", "500ms"]);
    let output = command.args(["--out", out]).output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    let plan = std::fs::read_to_string(folder.join(out)).unwrap();
    let after = plan.split("phase: prefill").nth(1).expect("a plan has prefill instances");
    let server = after.split("s-").nth(1).and_then(|rest| rest.split('/').next());
    server.and_then(|n| n.parse().ok()).expect("its GPU is on a server")
}

/// Runs `plan verify` where all servers are reached.
fn verify(network: &Network, folder: &Path, more: &[&str], path: Option<&Path>) -> Output {
    let at: Vec<String> =
        (0..SERVERS).map(|n| format!("s-{n}={}:7000", network.address(n))).collect();
    let mut command = Command::new("ip");
    command.args(["netns", "exec", &network.switch(), MERIDIAN, "plan", "verify"]);
    command.args(["--topology", "four.yaml", "--for", "800ms", "--at", &at.join(",")]).args(more);
    command.current_dir(folder).env("MERIDIAN_PROBE_TOKEN", TOKEN);
    if let Some(path) = path {
        let rest = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{}:{rest}", path.display()));
    }
    command.output().expect("ip runs")
}

/// Verifies until no pair was limited by a processor.
fn verified(network: &Network, folder: &Path, more: &[&str], path: Option<&Path>) -> Output {
    let mut last = String::new();
    for _ in 0..ATTEMPTS {
        let output = verify(network, folder, more, path);
        last = text(&output);
        if !last.contains("limited by a processor") {
            return output;
        }
    }
    panic!("processors were too busy {ATTEMPTS} times in a row; run the test again\n{last}");
}

/// The share of a `slow:` line, in percent.
fn share(line: &str) -> f64 {
    let words: Vec<&str> = line.split(' ').collect();
    let at = words.iter().position(|word| *word == "%,").expect("a share");
    words[at - 1].parse().expect("is a number")
}

// One direction of a link is made a third of its rate: exactly that is found, with its rate and with
// what it costs the plan, and a new plan for the measured rates avoids it. Once the link is as planned
// again, nothing is slow; the probes of that run are started by a stub of ssh.
#[test]
fn a_link_at_a_third_of_its_rate_is_found() {
    let (folder, network) = (folder(), Network::new(SERVERS));
    let prefill = planned(&folder, "four.yaml", "plan.yaml");
    network.set_out(prefill, "33mbit");
    let probes = Probes::start(&network);
    let more = ["--plan", "plan.yaml", "--out", "measured.yaml"];
    let output = verified(&network, &folder, &more, None);
    let said = text(&output);
    let slow: Vec<&str> = said.lines().filter(|line| line.starts_with("slow: ")).collect();
    assert_eq!(slow.len(), 1, "{said}");
    assert!(
        slow[0].starts_with(&format!("slow: s-{prefill} card 0 out: expected 11.25MB/s")),
        "{said}"
    );
    assert!((25.0..45.0).contains(&share(slow[0])), "{said}");
    assert!(!output.status.success() && said.contains("error: 1 place is slower"), "{said}");
    let costs = said.lines().find_map(|line| line.trim().strip_prefix("the links cost "));
    let lost: f64 = costs.and_then(|rest| rest.split(' ').next()?.parse().ok()).expect("a cost");
    assert!((40.0..80.0).contains(&lost), "{said}");
    assert!(said.contains("a new plan on all GPUs for the measured"), "{said}");
    let measured = std::fs::read_to_string(folder.join("measured.yaml")).unwrap();
    assert!(measured.contains(&format!("- link: s-{prefill} card 0 out")), "{measured}");
    let other = planned(&folder, "measured.yaml", "other.yaml");
    assert_ne!(other, prefill, "prompts are computed elsewhere");
    drop(probes);

    network.set_out(prefill, "100mbit");
    let stub = stub(&folder, &network);
    let more = ["--partners", "1", "--ssh", "--program", MERIDIAN];
    let output = verified(&network, &folder, &more, Some(&stub));
    let said = text(&output);
    assert!(output.status.success() && said.contains("no pair shows a slow link"), "{said}");
    assert!(said.starts_with("4 pairs, "), "{said}");
    // They end with verify, so the addresses are free again.
    drop(Probes::start(&network));
}

/// A stub in place of `ssh`: it runs the command in the namespace of the host.
fn stub(folder: &Path, network: &Network) -> PathBuf {
    let path = folder.join("stub");
    std::fs::create_dir_all(&path).unwrap();
    let servers = network.name(0).trim_end_matches('0').to_owned();
    let script = format!(
        "#!/bin/sh\n# A stub of ssh for a test: the host s-2 is the namespace {servers}2.\n\
         while [ \"$1\" != -- ]; do shift; done\nhost=${{2#s-}}\nshift 2\n\
         exec ip netns exec \"{servers}$host\" sh -c \"$*\"\n"
    );
    let file = path.join("ssh");
    std::fs::write(&file, script).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&file, mode).unwrap();
    path
}
