//! `meridian check` finds every problem that a start would find, and names all of them at once.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A folder that is removed at the end of its test.
struct Dir(PathBuf);

impl Dir {
    fn new(name: &str) -> Dir {
        let dir =
            std::env::temp_dir().join(format!("meridian-check-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(&dir).expect("makes a folder");
        Dir(dir)
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn meridian(args: &[&str]) -> Output {
    let output = Command::new(env!("CARGO_BIN_EXE_meridian")).args(args).output();
    output.expect("the binary runs")
}

fn certs(dir: &Path, args: &[&str]) {
    let folder = dir.join("fleet");
    let mut all = vec!["certs", args[0], folder.to_str().expect("is text")];
    all.extend(&args[1..]);
    let output = meridian(&all);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn check(dir: &Path, yaml: &str) -> Result<String, String> {
    let file = dir.join("config.yaml");
    std::fs::write(&file, yaml.replace("DIR", dir.to_str().expect("is text"))).expect("writes");
    let output = meridian(&["check", "-c", file.to_str().expect("is text")]);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match output.status.success() {
        true => Ok(text(&output.stdout)),
        false => Err(text(&output.stderr)),
    }
}

const PEERS: &str = "version: 1\nregion: us\npeers:\n  ca: DIR/fleet/ca.crt\n  crl: DIR/fleet/ca.crl\n  \
     certificate: DIR/fleet/gateways/us-1.crt\n  key: DIR/fleet/gateways/us-1.key\n  \
     gateways: [{name: eu-1, region: eu, address: 'eu:1'}]\n";

// All missing files are named, each with its field and remedy, together with mistakes in the
// configuration itself. Once the files exist, the configuration is valid.
#[test]
fn missing_files() {
    let dir = Dir::new("missing");
    let yaml = format!(
        "{PEERS}attempts: 0\ntls: {{certificate: DIR/none.crt, key: DIR/none.key}}\n\
         discovery: [{{file: DIR/replicas.yaml}}]\n\
         control: {{url: 'http://c:1', view: DIR/none/us.view}}\n"
    );
    let error = check(&dir.0, &yaml).expect_err("cannot work");
    for part in [
        "attempts: 0 would send no request",
        "peers.ca: ",
        "tls.certificate: ",
        "none.crt: ",
        "make it with `meridian certs`",
        "replicas.yaml cannot be read",
    ] {
        assert!(error.contains(part), "{part} is missing in {error}");
    }
    certs(&dir.0, &["init", "--fleet", "prod"]);
    certs(&dir.0, &["issue", "--gateway", "us-1", "--region", "us"]);
    let said = check(&dir.0, PEERS).unwrap_or_else(|error| panic!("{error}"));
    assert!(
        said.contains("is valid: region us") && said.contains("--live also tries ports"),
        "{said}"
    );
    let view = format!("{PEERS}control: {{url: 'http://c:1', view: DIR/none/us.view}}\n");
    let error = check(&dir.0, &view).expect_err("cannot work");
    assert!(error.contains("control.view: ") && error.contains("cannot be written"), "{error}");
}

// Readable certificates that peers would refuse: of another region, of another authority, with the
// wrong key, revoked, and expired.
#[test]
fn certificates_that_would_be_refused() {
    let dir = Dir::new("refused");
    certs(&dir.0, &["init", "--fleet", "prod"]);
    certs(&dir.0, &["issue", "--gateway", "us-1", "--region", "us"]);
    certs(&dir.0, &["issue", "--gateway", "eu-1", "--region", "eu"]);
    let says = |yaml: String, part: &str| {
        let error = check(&dir.0, &yaml).expect_err("cannot work");
        assert!(error.contains(part), "{part} is missing in {error}");
    };
    says(PEERS.replace("us-1", "eu-1"), "peers.certificate: is for region `eu`");
    says(PEERS.replace("us-1.key", "eu-1.key"), "peers.key: ");
    says(PEERS.replace("region: us", "region: uk"), "peers.certificate: is for region `us`");
    says(PEERS.replace("fleet/ca.crl", "fleet/ca.crt"), "peers.crl: ");
    let dropped = "gateways: [{name: eu-1, region: eu, address: 'eu:1'}]";
    says(PEERS.replace(dropped, "gateways: []"), "peers: no gateway is listed");
    certs(&dir.0, &["revoke", "us-1"]);
    says(PEERS.to_owned(), "peers.certificate: ");
    says(PEERS.to_owned(), "is revoked");
    certs(&dir.0, &["init", "--fleet", "prod", "--force"]);
    says(PEERS.to_owned(), "is not issued by an authority in `ca`");
}

// For a control plane, the check covers its certificate and the folder of its store.
#[test]
fn control_planes() {
    let dir = Dir::new("control");
    certs(&dir.0, &["init", "--fleet", "prod"]);
    certs(&dir.0, &["issue", "--gateway", "us-1", "--region", "us"]);
    certs(&dir.0, &["issue", "--control", "c-1"]);
    let yaml = |store: &str, name: &str| {
        format!(
            "version: 1\nstore: DIR/{store}\ntls: {{ca: DIR/fleet/ca.crt, crl: DIR/fleet/ca.crl, \
             certificate: DIR/fleet/{name}.crt, key: DIR/fleet/{name}.key}}\n"
        )
    };
    let error = check(&dir.0, &yaml("none/c.redb", "gateways/us-1")).expect_err("cannot work");
    assert!(error.contains("tls.certificate: ") && error.contains("is not a control plane's"));
    assert!(error.contains("store: ") && error.contains("none/c.redb"), "{error}");
    let said = check(&dir.0, &yaml("c.redb", "control/c-1")).unwrap_or_else(|e| panic!("{e}"));
    assert!(said.contains("is valid: control plane"), "{said}");
    assert!(!dir.0.join("c.redb").exists(), "a check makes no store");
}

// The hard limit on open files decides: below a gateway's needs, `check` names the needed number
// and limits that fit, and with those limits the same shell's check passes, though its soft limit
// is lower still.
#[test]
fn open_files() {
    let dir = Dir::new("files");
    let file = dir.0.join("config.yaml");
    let check = |limits: &str| {
        std::fs::write(&file, format!("version: 1\nregion: us\n{limits}\n")).expect("writes");
        let shell = format!(
            "ulimit -Sn 256 && ulimit -Hn 1024 && exec {} check -c {}",
            env!("CARGO_BIN_EXE_meridian"),
            file.display()
        );
        Command::new("sh").args(["-c", &shell]).output().expect("a shell runs")
    };
    let refused = check("");
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success(), "{said}");
    for part in ["need 17472 open files", "`ulimit -Hn`) is 1024", "LimitNOFILE=17472"] {
        assert!(said.contains(part), "{part} is missing in {said}");
    }
    let limits =
        said.split('`').find(|part| part.starts_with("limits: ")).expect("limits that fit");
    let passed = check(limits);
    assert!(passed.status.success(), "{}", String::from_utf8_lossy(&passed.stderr));
}

// The line about a valid file counts the replicas, and says so if the gateway has none to use.
#[test]
fn replicas_are_counted() {
    let dir = Dir::new("count");
    for (replicas, expected) in [
        ("", "no replicas, so it refuses every request; list them in `replicas` or `discovery`"),
        ("replicas: [{url: 'http://a:1'}]\n", "region us, 1 replica."),
        ("replicas: [{url: 'http://a:1'}, {url: 'http://a:2'}]\n", "region us, 2 replicas."),
        ("discovery: [{dns: 'engines:8000'}]\n", "region us, 0 replicas."),
    ] {
        let said = check(&dir.0, &format!("version: 1\nregion: us\n{replicas}"));
        let said = said.unwrap_or_else(|error| panic!("{error}"));
        assert!(said.contains(expected), "{said}");
    }
}

// Replicas of a pair that are asked: one version is older than the other, and a prefill leg hands over
// nothing. Both problems name the replica and the remedy; without the flag no replica is asked.
#[test]
fn pairs_are_asked() {
    let dir = Dir::new("pairs");
    let (prefill, decode) = (engine("0.31.0"), engine("0.32.0"));
    let yaml = format!(
        "version: 1\nreplicas:\n- {{url: '{prefill}', role: prefill}}\n- {{url: '{decode}', role: decode}}\n"
    );
    assert!(check(&dir.0, &yaml).is_ok());
    let file = dir.0.join("config.yaml");
    let file = file.to_str().expect("is text");
    let output = meridian(&["check", "-c", file, "--live"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "{said}");
    for part in [
        "config.yaml:4: replicas[1].url: ",
        "runs version 0.32.0, and of the prefill replicas none does: replicas[0] runs 0.31.0; pairs need",
        "replicas[0].transfer: `nixl` at ",
        "has no `kv_transfer_params`: start the engine with --kv-transfer-config",
    ] {
        assert!(said.contains(part), "{part} is missing in {said}");
    }
}

// Old replicas pair with old ones and new with new, as during a rolling upgrade.
#[test]
fn a_rolling_upgrade_is_no_problem() {
    let dir = Dir::new("upgrade");
    let list: Vec<String> = [("0.31.0", "prefill"), ("0.32.0", "decode"), ("0.32.0", "prefill")]
        .into_iter()
        .chain([("0.31.0", "decode")])
        .map(|(version, role)| format!("- {{url: '{}', role: {role}}}\n", engine(version)))
        .collect();
    let file = dir.0.join("config.yaml");
    std::fs::write(&file, format!("version: 1\nreplicas:\n{}", list.concat())).expect("writes");
    let file = file.to_str().expect("is text");
    let output = meridian(&["check", "-c", file, "--live"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("start the engine with --kv-transfer-config"), "{said}");
    assert!(!said.contains("equal versions"), "{said}");
}

/// The address of a server that answers as a vLLM of this version without a KV connector.
fn engine(version: &str) -> String {
    use std::io::{BufRead, BufReader, Read, Write};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let url = format!("http://{}", listener.local_addr().expect("it listens"));
    let version = format!("{{\"version\":\"{version}\"}}");
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let stream = stream.expect("a client connects");
            let mut reader = BufReader::new(&stream);
            let (mut first, mut length) = (String::new(), 0);
            reader.read_line(&mut first).expect("the client writes");
            for line in reader.by_ref().lines().map_while(Result::ok) {
                if let Some(n) = line.to_lowercase().strip_prefix("content-length: ") {
                    length = n.parse().expect("is a number");
                }
                if line.is_empty() {
                    break;
                }
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).expect("the client writes");
            let answer = match first.split(' ').nth(1) {
                Some("/version") => version.as_str(),
                Some("/metrics") => "vllm:num_requests_running 0\n",
                Some("/v1/models") => r#"{"object":"list","data":[{"id":"m","object":"model"}]}"#,
                _ => r#"{"id":"x","choices":[{"index":0,"text":"a","finish_reason":"length"}]}"#,
            };
            let head = format!(
                "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{answer}",
                answer.len()
            );
            (&stream).write_all(head.as_bytes()).expect("the client reads");
        }
    });
    url
}
