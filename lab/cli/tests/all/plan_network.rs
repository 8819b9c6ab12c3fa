//! `meridian plan discover`, `verify` and `probe` as commands, on files, the loopback and a stub of
//! ssh.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

const MERIDIAN: &str = crate::programs::MERIDIAN;
const HOSTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../plan/src/discover/samples/hosts");

fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::remove_dir_all(&folder).ok();
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

fn plan(args: &str, path: Option<&Path>) -> Output {
    let mut command = Command::new(MERIDIAN);
    command.arg("plan").args(args.split_whitespace()).env_remove("MERIDIAN_PROBE_TOKEN");
    if let Some(path) = path {
        let rest = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{}:{rest}", path.display()));
    }
    command.output().unwrap()
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn errors(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// A stub in place of `ssh` in a folder of its own: each host does what its line says.
fn stub(name: &str, cases: &str) -> PathBuf {
    let folder = folder(name);
    let file = folder.join("ssh");
    let script = format!(
        "#!/bin/sh\n# A stub of ssh for a test.\nwhile [ \"$1\" != -- ]; do shift; done\ncase \"$2\" \
         in\n{cases}\n*) echo \"ssh: Could not resolve hostname $2\" >&2; exit 255 ;;\nesac\n"
    );
    std::fs::write(&file, script).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
    folder
}

// The samples make a topology that the planner plans for, with the hosts' names.
#[test]
fn files_become_a_topology() {
    let file = folder("discovered").join("two.yaml");
    let file = file.to_str().unwrap();
    let output = plan(&format!("discover {HOSTS} --access 8 --out {file}"), None);
    assert!(output.status.success(), "{}", errors(&output));
    let planned = plan(&format!("--topology {file} --model llama-3.1-70b"), None);
    assert!(planned.status.success(), "{}", errors(&planned));
    let written = std::fs::read_to_string(file).unwrap();
    assert!(
        written.contains("- gpu-b") && written.contains("# assumed: all 2 servers"),
        "{written}"
    );
}

// The script runs here, over a stub of ssh and by hand, and its output is read: this machine has no
// GPUs that nvidia-smi lists, or it has some and becomes a server.
#[test]
fn the_script_runs() {
    let script = out(&plan("discover --script", None));
    assert!(script.starts_with("#!/bin/sh\n"), "{script}");
    let stub = stub("ssh-script", "here) shift 2; exec \"$@\" ;;");
    let output = plan("discover --ssh here", Some(&stub));
    let said = errors(&output);
    assert!(output.status.success() || said.contains("here: nvidia-smi: "), "{said}");
}

// Hosts that fail are named, all of them, and each with ssh's own words or the time.
#[test]
fn hosts_that_fail_are_named() {
    let cases = format!(
        "a) cat {HOSTS}/gpu-a.txt ;;\nslow) exec sleep 60 ;;\nodd) echo Permission denied >&2; exit 255 ;;"
    );
    let stub = stub("ssh-fails", &cases);
    let output = plan("discover --ssh a,nowhere,slow,odd --within 1s", Some(&stub));
    let said = errors(&output);
    assert!(said.starts_with("error: 3 of 4 hosts failed\n"), "{said}");
    for expected in [
        "ssh nowhere: exit status: 255: ssh: Could not resolve hostname nowhere; try the same `ssh` by",
        "ssh slow: it did not end within 1s;",
        "ssh odd: exit status: 255: Permission denied;",
    ] {
        assert!(said.contains(expected), "{said}");
    }
    let output = plan("discover --ssh u@a", Some(&stub));
    assert!(errors(&output).contains("Could not resolve hostname u@a"), "{}", errors(&output));
    let output = plan("discover --ssh=-oProxyCommand=id", Some(&stub));
    let said = errors(&output);
    assert!(said.contains("--ssh \"-oProxyCommand=id\": use a host"), "{said}");
}

// Each mistake names its field, the value and the remedy.
#[test]
fn mistakes_are_named() {
    let empty = folder("no-hosts");
    for (args, expected) in [
        ("discover".to_owned(), "servers: none; name hosts with --ssh"),
        (format!("discover {}", empty.display()), "no file HOST.txt; run `meridian plan discover"),
        (format!("discover {HOSTS} --gpu b300"), "--gpu: b300; use "),
        (format!("discover {HOSTS} --unit gpu-a"), "--unit: gpu-b in 0 units;"),
        ("probe --listen 0.0.0.0:0".to_owned(), "beyond loopback a token is required"),
        ("probe --listen 127.0.0.1:0 --token short".to_owned(), "token of 5 characters: use 16"),
        (verify("--at v100-0=10.0.0.1"), "use the numeric address of the card"),
        (verify("--at v100-0"), "--at: v100-0; write SERVER=ADDR:PORT"),
        (verify("--at v100-9=127.0.0.1:1"), "--at: v100-9; use a server of the topology"),
        (verify("--at v100-0=127.0.0.1:1 --for 1h"), "--for: 3600s; use 300ms to 60s"),
        (verify("--at v100-0=127.0.0.1:1 --streams 0"), "--streams: 0; use 1 to 16"),
        (verify("--at v100-0=127.0.0.1:1"), "v100-0/0: 127.0.0.1:1: Connection refused"),
    ] {
        let output = plan(&args, None);
        assert!(!output.status.success(), "{args}");
        assert!(errors(&output).contains(expected), "{args}: {}", errors(&output));
    }
}

fn verify(more: &str) -> String {
    format!("verify --topology heroserve-testbed {more}")
}

/// A probe on the loopback.
struct Probe {
    child: Child,
    address: String,
}

impl Probe {
    fn start(more: &[&str]) -> Probe {
        let mut command = Command::new(MERIDIAN);
        command.args(["plan", "probe", "--listen", "127.0.0.1:0"]).args(more);
        let mut child = command.stdout(Stdio::piped()).stdin(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("listening on ").expect("it listens").to_owned();
        Probe { child, address }
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

// Two probes on the loopback, which is as fast as 10 MB/s: both directions are measured, alone and at
// once over the core, nothing is slow, and the topology is written without measured rates.
#[test]
fn the_loopback_is_measured() {
    let folder = folder("loopback");
    let topology = "version: 1\nunits:\n- count: 2\n  servers:\n  - {name: s, gpu: l4, gpus: 1, cards: 1, \
                    card_rate: 10MB/s}\ncore: {switches: 1}\n";
    let file = folder.join("two.yaml");
    std::fs::write(&file, topology).unwrap();
    let (a, b) = (Probe::start(&[]), Probe::start(&[]));
    let (file, out_file) = (file.display(), folder.join("out.yaml"));
    let output = plan(
        &format!(
            "verify --topology {file} --at s-0={},s-1={} --for 400ms --together --out {}",
            a.address,
            b.address,
            out_file.display()
        ),
        None,
    );
    assert!(output.status.success(), "{}{}", out(&output), errors(&output));
    let said = out(&output);
    assert!(said.contains("\ns-0 to s-1 ") && said.contains("\ns-1 to s-0 "), "{said}");
    assert!(said.contains("no pair shows a slow link"), "{said}");
    assert!(said.contains("faster than its links: s-0 to s-1: "), "{said}");
    assert!(said.contains("all at once, 2 flows\naccess 0 uplink out, 1 flows "), "{said}");
    let written = std::fs::read_to_string(out_file).unwrap();
    assert!(written.contains("version: 1") && !written.contains("measured:"), "{written}");
}

// A probe ends itself when it is not used, and with the stdin of the one who started it.
#[test]
fn probes_end_themselves() {
    let mut idle = Probe::start(&["--idle", "100ms"]);
    assert!(idle.child.wait().unwrap().success());
    let mut command = Command::new(MERIDIAN);
    command.args(["plan", "probe", "--stdin", "--listen", "127.0.0.1:0"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    std::io::Write::write_all(child.stdin.as_mut().unwrap(), b"0123456789abcdef\n").unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert!(line.starts_with("listening on 127.0.0.1:"), "{line}");
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
}

// The loopback carries less than a link of 100 TB/s, and a processor is the limit: no link is reported
// as slow, and the file has no measured rate.
#[test]
fn a_processor_is_no_slow_link() {
    let folder = folder("processor");
    let topology = "version: 1\nunits:\n- servers:\n  - {count: 2, name: s, gpu: l4, gpus: 1, cards: \
                    1, card_rate: 100TB/s}\n";
    let file = folder.join("two.yaml");
    std::fs::write(&file, topology).unwrap();
    let (a, b) = (Probe::start(&[]), Probe::start(&[]));
    let at = format!("s-0={},s-1={}", a.address, b.address);
    let verify = format!("verify --topology {} --for 400ms --at {at}", file.display());
    let output = plan(&verify, None);
    let said = out(&output);
    assert!(said.contains("not counted: s-0 to s-1: the ends of a stream"), "{said}");
    assert!(said.contains("no pair shows a slow link") && !said.contains("slow: "), "{said}");
    let errors = errors(&output);
    assert!(errors.contains("2 pairs were limited by a processor"), "{errors}");
    assert!(!output.status.success());
}
