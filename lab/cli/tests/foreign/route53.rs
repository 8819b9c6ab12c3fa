//! Records in AWS Route 53, as moto keeps them: two control planes on one etcd, gateways that come and
//! go, a leader that is killed, and credentials that AWS refuses.
//!
//! moto stores records and health checks, and knows credentials. It does not refuse what Route 53
//! refuses: batches that are too large, two latency records of one AWS region, aliases without a target,
//! health checks that do not exist or have a private address, a caller reference that was used before.
//! It limits no rates, has every change on all servers at once, and does not read the identifier at
//! which a list continues. `product/control/src/route53/tests.rs` has the rules of batches and records.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::common::{LIMIT, fleet, must};
use meridian_fleet::venv::{self, Pins};
use meridian_fleet::{Client, Fleet, Gateway, Process, Program, free_port};
use meridian_protocol::registry::Hosted;
use serde_json::{Value, json};

const PINS: Pins = Pins { name: "moto", key: "MOTO_PIP", module: "moto.server" };

/// moto, with one zone in it.
struct Moto {
    _process: Process,
    url: String,
    python: PathBuf,
    zone: String,
}

impl Moto {
    async fn start(fleet: &Fleet, client: &Client) -> Moto {
        let home = venv::home(Path::new(env!("CARGO_MANIFEST_DIR")), "moto");
        let python = must(venv::install(&home, PINS).await);
        let port = must(free_port()).to_string();
        let program = Program::new("moto", python.with_file_name("moto_server"));
        let process = fleet.start(program.args(["-H", "127.0.0.1", "-p", &port])).await;
        let (mut process, url) = (must(process), format!("http://127.0.0.1:{port}"));
        let start = Instant::now();
        while client.get(&format!("{url}/moto-api/data.json")).await.is_err() {
            let ended = process.ended();
            assert!(ended.is_none() && start.elapsed() < LIMIT, "{}", process.log_tail());
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let mut moto = Moto { _process: process, url, python, zone: String::new() };
        let zone = moto.ask(&["make"]);
        moto.zone = zone.as_str().expect("an id").to_owned();
        moto
    }

    fn ask(&self, args: &[&str]) -> Value {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/foreign/route53.py");
        let mut command = Command::new(&self.python);
        let output = command.arg(script).arg(&self.url).args(args).output().expect("it runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).expect("is JSON")
    }

    /// The records: name, type, identifier, and the answer.
    fn records(&self) -> Vec<String> {
        let shown = self.ask(&["show", &self.zone]);
        let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
        let record = |record: &Value| {
            let answer = match record.pointer("/ResourceRecords/0/Value") {
                Some(value) => text(value),
                None => format!(
                    "{} {}",
                    text(&record["Region"]),
                    text(&record["AliasTarget"]["DNSName"])
                ),
            };
            [text(&record["Name"]), text(&record["Type"]), text(&record["SetIdentifier"]), answer]
                .join(" ")
        };
        let mut records: Vec<String> =
            shown["records"].as_array().expect("a list").iter().map(record).collect();
        records.sort();
        records
    }

    fn checks(&self) -> Vec<Value> {
        let shown = self.ask(&["show", &self.zone]);
        shown["checks"].as_object().expect("by id").values().cloned().collect()
    }

    /// Waits until exactly these records are there, beside those of others.
    async fn until(&self, own: &[&str]) {
        const OTHERS: [&str; 4] = [
            "docs.llm.example.org. A - 192.0.2.2",
            r#"llm.example.org. TXT - "not a gateway""#,
            "www.example.org. A - 192.0.2.1",
            "zzz.example.org. AAAA - 2001:db8::9",
        ];
        let mut wanted: Vec<&str> = OTHERS.into_iter().chain(own.iter().copied()).collect();
        wanted.sort_unstable();
        let start = Instant::now();
        loop {
            let found = self.records();
            if found == wanted {
                return;
            }
            assert!(start.elapsed() < LIMIT, "{found:#?}\nin place of {wanted:#?}");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    /// Waits until there are this many health checks, with that of others.
    async fn until_checks(&self, count: usize) {
        let start = Instant::now();
        while self.checks().len() != count {
            assert!(start.elapsed() < LIMIT, "{:#?}", self.checks());
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }
}

/// Starts a control plane with this store, and credentials unless there are none.
async fn control(
    fleet: &Fleet,
    name: &str,
    store: &str,
    moto: &Moto,
    zone: &str,
    key: Option<&str>,
) -> Process {
    let yaml = format!(
        "version: 1\n{store}admin: 127.0.0.1:0\nroute53:\n  zone: {zone}\n  name: llm.example.org\n  \
         regions: {{eu: eu-central-1, us: us-east-1}}\n  ttl: 5s\n  \
         health_check: {{type: http, port: 8080, interval: 10s}}\n  endpoint: {}\n",
        moto.url
    );
    let path = fleet.dir().join(format!("{name}.yaml"));
    std::fs::write(&path, yaml).expect("writes");
    let path = path.to_str().expect("is text");
    let mut program = Program::new(name, crate::programs::MERIDIAN).args(["control", "-c", path]);
    // Neither files of this machine nor its cloud have any.
    let home = fleet.dir().to_str().expect("is text").to_owned();
    program.env =
        vec![("HOME".into(), home.into()), ("AWS_EC2_METADATA_DISABLED".into(), "true".into())];
    if let Some(key) = key {
        program.env.push(("AWS_ACCESS_KEY_ID".into(), key.into()));
        program.env.push(("AWS_SECRET_ACCESS_KEY".into(), key.into()));
    }
    must(fleet.start(program.ready(&["admin on "])).await)
}

async fn gateway(fleet: &Fleet, planes: &[&Process], name: &str, public: &str) -> Gateway {
    let urls: Vec<&str> = planes.iter().map(|plane| plane.said(0)).collect();
    let yaml = format!(
        "version: 1\nregion: {}\nlisten: 127.0.0.1:0\nadmin: 127.0.0.1:0\n\
         control: {{url: {urls:?}, name: {name}, lease: 2s, public: {public}}}\n",
        &name[..2]
    );
    let path = fleet.dir().join(format!("{name}.yaml"));
    std::fs::write(&path, yaml).expect("writes");
    let args = ["gateway".into(), "-c".into(), path.into_os_string()];
    let process = must(fleet.meridian(name, args, &["listening on ", "admin on "]).await);
    let (url, admin) = (process.said(0).to_owned(), process.said(1).to_owned());
    Gateway { process, url, admin, peers: None }
}

/// Waits until the admin page of a control plane is so.
async fn page_when(client: &Client, plane: &Process, is_so: impl Fn(&Hosted) -> bool) -> Hosted {
    let (url, start) = (format!("{}/admin/route53", plane.said(0)), Instant::now());
    loop {
        let page: Hosted = must(client.json(&url).await);
        if is_so(&page) {
            return page;
        }
        assert!(start.elapsed() < LIMIT, "{page:#?}\n{}", plane.log_tail());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

const EU: &str = "llm.example.org. A meridian/eu/A eu-central-1 eu.llm.example.org.";
const EU_V6: &str = "llm.example.org. AAAA meridian/eu/AAAA eu-central-1 eu.llm.example.org.";
const US: &str = "llm.example.org. A meridian/us/A us-east-1 us.llm.example.org.";
const EU_1: &str = "eu.llm.example.org. A meridian/eu/203.0.113.1 203.0.113.1";
const EU_2: &str = "eu.llm.example.org. A meridian/eu/203.0.113.2 203.0.113.2";
const EU_2_V6: &str = "eu.llm.example.org. AAAA meridian/eu/2001:db8::2 2001:db8::2";
const EU_3: &str = "eu.llm.example.org. A meridian/eu/203.0.113.3 203.0.113.3";
const US_1: &str = "us.llm.example.org. A meridian/us/198.51.100.1 198.51.100.1";

// Gateways get records with health checks. One that dies loses them, unless it is the last of its region. The
// leader is killed, and the other control plane continues. While AWS refuses the credentials the records
// stay. Records of others are never touched.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_follow_the_fleet() {
    let (fleet, client) = (fleet(), Client::new());
    let moto = Moto::start(&fleet, &client).await;
    let etcd = must(fleet.etcd(1).await);
    let store = format!("etcd: {{endpoints: {:?}}}\n", etcd.endpoints());
    let mut first = control(&fleet, "c-1", &store, &moto, &moto.zone, Some("one")).await;
    page_when(&client, &first, |page| page.leads).await;
    let second = control(&fleet, "c-2", &store, &moto, &moto.zone, Some("two")).await;
    let planes = [&first, &second];
    let _eu_1 = gateway(&fleet, &planes, "eu-1", "[203.0.113.1]").await;
    let mut eu_2 = gateway(&fleet, &planes, "eu-2", "[203.0.113.2, '2001:db8::2']").await;
    let mut us_1 = gateway(&fleet, &planes, "us-1", "[198.51.100.1]").await;
    moto.until(&[EU, EU_V6, US, EU_1, EU_2, EU_2_V6, US_1]).await;
    let checks = moto.checks();
    let check = checks.iter().find(|one| one["HealthCheckConfig"]["IPAddress"] == "203.0.113.1");
    let check = &check.expect("is there")["HealthCheckConfig"];
    for (field, value) in [
        ("Type", json!("HTTP")),
        ("Port", json!(8080)),
        ("ResourcePath", json!("/ready")),
        ("FullyQualifiedDomainName", json!("llm.example.org")),
        ("RequestInterval", json!(10)),
        ("FailureThreshold", json!(3)),
    ] {
        assert_eq!(check[field], value, "{field}");
    }
    let page = page_when(&client, &first, |page| page.in_order_ms_ago.is_some()).await;
    assert_eq!((page.records.len(), page.error), (7, None));
    let other = page_when(&client, &second, |page| !page.leads).await;
    assert!(other.records.is_empty(), "only the leader reads the zone");

    must(eu_2.process.kill().await);
    moto.until(&[EU, US, EU_1, US_1]).await;
    moto.until_checks(3).await;
    must(us_1.process.kill().await);
    must(first.kill().await);
    page_when(&client, &second, |page| page.leads && page.in_order_ms_ago.is_some()).await;
    let mut eu_3 = gateway(&fleet, &[&second], "eu-3", "[203.0.113.3]").await;
    // The last gateway of us is lost, too, and its record stays: its health check decides.
    moto.until(&[EU, US, EU_1, EU_3, US_1]).await;

    must(client.post(&format!("{}/moto-api/reset-auth", moto.url), "0").await);
    must(eu_3.process.kill().await);
    let refused = |page: &Hosted| {
        page.error.as_ref().is_some_and(|error| error.contains("AWS refuses the credentials"))
    };
    page_when(&client, &second, refused).await;
    must(client.post(&format!("{}/moto-api/reset-auth", moto.url), "inf").await);
    moto.until(&[EU, US, EU_1, US_1]).await;
    page_when(&client, &second, |page| page.error.is_none()).await;
    let metrics = must(client.get(&format!("{}/metrics", second.said(0))).await);
    let metrics = String::from_utf8_lossy(&metrics.body).into_owned();
    for line in [
        "meridian_route53_leads 1",
        "meridian_route53_changes_total{kind=\"record_deleted\"} 1",
        "meridian_route53_changes_total{kind=\"health_check_created\"} 1",
    ] {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }
}

// A control plane that starts restores records that another program changed. Without credentials, and for
// a zone that is not there, the page says what to do.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_restores_records() {
    let (fleet, client) = (fleet(), Client::new());
    let moto = Moto::start(&fleet, &client).await;
    let store = |name: &str| format!("store: {}\n", fleet.dir().join(name).display());
    let mut plane = control(&fleet, "c", &store("c"), &moto, &moto.zone, Some("one")).await;
    let _eu = gateway(&fleet, &[&plane], "eu-1", "[203.0.113.1]").await;
    moto.until(&[EU, EU_1]).await;
    must(plane.kill().await);
    assert_eq!(
        moto.ask(&["tamper", &moto.zone]),
        json!(["meridian/eu/203.0.113.1", "meridian/eu/A"])
    );
    let again = control(&fleet, "c", &store("c"), &moto, &moto.zone, Some("one")).await;
    page_when(&client, &again, |page| page.in_order_ms_ago.is_some()).await;
    moto.until(&[EU, EU_1]).await;
    let shown = moto.ask(&["show", &moto.zone]);
    let own = shown["records"].as_array().unwrap().iter();
    let mut own = own.filter(|one| one["SetIdentifier"] == "meridian/eu/203.0.113.1");
    assert_eq!(own.next().expect("is there")["TTL"], json!(5));
    moto.until_checks(2).await;

    let says = |part: &'static str| {
        move |page: &Hosted| page.error.as_ref().is_some_and(|error| error.contains(part))
    };
    let none = control(&fleet, "d", &store("d"), &moto, &moto.zone, None).await;
    let page =
        page_when(&client, &none, says("there are no AWS credentials; set AWS_ACCESS_KEY_ID"))
            .await;
    let (shown, logged) = (page.error.unwrap_or_default(), none.log_tail());
    assert!(!format!("{shown}{logged}").contains("DispatchFailure("), "a dump: {shown}\n{logged}");
    let absent = control(&fleet, "e", &store("e"), &moto, "ZNOTTHERE", Some("one")).await;
    page_when(&client, &absent, says("route53.zone: `ZNOTTHERE` is not a hosted zone")).await;
}
