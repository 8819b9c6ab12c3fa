//! The files in the chart's documents, read by those that they are for.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::{Chart, VALUES, checkable, document, root};

// `meridian check` accepts the gateways' file and the control plane's of each values file, with the Secrets mounted.
#[tokio::test]
async fn gateways_and_control_planes_read_theirs() {
    let chart = Chart::ours().await;
    let folder = std::env::temp_dir().join(format!("meridian-files-{}", std::process::id()));
    for (name, _) in VALUES {
        let documents = chart.of_values(name);
        let folder = folder.join(name);
        mount(&folder, &documents);
        let mut files = vec![("gateway.yaml", "meridian")];
        files.extend(name.starts_with("control").then_some(("control.yaml", "meridian-control")));
        for (file, map) in files {
            let text = &document(&documents, "ConfigMap", map)["data"][file];
            let at = |path: &str| folder.join(path).display().to_string();
            let text = text.as_str().expect("it is text");
            let text = text.replace("/etc/meridian-secrets", &at("secrets"));
            let text = text.replace("/var/lib/meridian", &at("state"));
            std::fs::write(folder.join(file), text).expect("writes");
            let (good, said) = checked(&folder.join(file));
            assert!(good && !said.contains("warning"), "{name}: {said}");
        }
    }
    // Without the Secret, the message names its file.
    let alone = folder.join("one-region");
    std::fs::remove_dir_all(alone.join("secrets")).expect("removes the secrets");
    let (good, said) = checked(&alone.join("gateway.yaml"));
    assert!(!good && said.contains("secrets/own/peers-secret"), "{said}");
    std::fs::remove_dir_all(&folder).expect("removes the folder");
}

fn checked(file: &Path) -> (bool, String) {
    let mut command = Command::new(crate::programs::MERIDIAN);
    let done = command.args(["check", "-c"]).arg(file).output();
    let done = done.expect("meridian is built: cargo build --package meridian");
    let said = [done.stdout, done.stderr].concat();
    (done.status.success(), String::from_utf8_lossy(&said).into_owned())
}

/// Writes Secrets where a kubelet would mount them, with what the chart's README.md says.
fn mount(folder: &Path, documents: &[Value]) {
    let folder_of = |path: &str| {
        let folder = folder.join(path);
        std::fs::create_dir_all(&folder).expect("makes the folder");
        folder
    };
    folder_of("state");
    let (own, tenants) = (folder_of("secrets/own"), folder_of("secrets/tenants"));
    let put = |path: PathBuf, text: &str| std::fs::write(path, text).expect("writes");
    put(tenants.join("acme"), &format!("sha256:{}", "f31e2d3c4b5a6978".repeat(4)));
    let made = documents.iter().find(|one| one["kind"] == "Secret");
    for key in ["peers-secret", "admin-token-hash", "control-token"] {
        // An operator's own where the chart makes none.
        let own_text = match key {
            "admin-token-hash" => format!("sha256:{}", "d3c4b5a69781e2f0".repeat(4)),
            _ => "e7Wq0vXrL2mZ9cTb5KdY".to_owned(),
        };
        let text = made.map_or(own_text, |made| decoded(&made["data"][key]));
        put(own.join(key), &text);
    }
    if documents.iter().any(|one| one.to_string().contains("etcd-client")) {
        let client = folder_of("secrets/etcd-client");
        let key = rcgen::KeyPair::generate().expect("makes a key");
        let certificate = rcgen::CertificateParams::new(vec!["etcd.example.org".to_owned()]);
        let certificate = certificate.expect("a name").self_signed(&key).expect("signs");
        put(client.join("ca.crt"), &certificate.pem());
        put(client.join("tls.crt"), &certificate.pem());
        put(client.join("tls.key"), &key.serialize_pem());
    }
}

/// A text in base64.
fn decoded(value: &Value) -> String {
    let text = value.as_str().expect("it is text").trim_end_matches('=');
    let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let (mut bits, mut count, mut bytes) = (0_u32, 0, Vec::new());
    for byte in text.bytes() {
        let six = alphabet.iter().position(|one| *one == byte).expect("it is base64");
        (bits, count) = (bits << 6 | six as u32, count + 6);
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count & 0xff) as u8);
        }
    }
    String::from_utf8(bytes).expect("it is text")
}

// Alerts and dashboard are those of dashboards/, and scrapes have the job that the alerts ask for.
#[tokio::test]
async fn monitoring_is_the_shipped_one() {
    let chart = Chart::ours().await;
    let documents = chart.of_values("control-etcd");
    assert_eq!(checkable("control-etcd", &documents).len() + 3, documents.len());
    let read = |name: &str| std::fs::read_to_string(root().join("dashboards").join(name)).unwrap();
    let alerts = chart.documents(&read("alerts.yaml"));
    let rules = document(&documents, "PrometheusRule", "meridian");
    assert_eq!(rules["spec"], alerts[0]);
    let board = document(&documents, "ConfigMap", "meridian-dashboard");
    assert_eq!(board["data"]["meridian.json"], read("grafana.json"));

    let monitor = document(&documents, "ServiceMonitor", "meridian");
    let service = document(&documents, "Service", "meridian-admin");
    let job = monitor["spec"]["jobLabel"].as_str().expect("it is text");
    assert_eq!(service["metadata"]["labels"][job], "meridian");
    assert!(read("alerts.yaml").contains("job=\"meridian\""));
    let wanted = monitor["spec"]["selector"]["matchLabels"].as_object().expect("labels");
    let has =
        |one: &&Value| wanted.iter().all(|(key, value)| one["metadata"]["labels"][key] == *value);
    let services = documents.iter().filter(|one| one["kind"] == "Service");
    let names: Vec<&Value> = services.filter(has).map(|one| &one["metadata"]["name"]).collect();
    assert_eq!(names, ["meridian-admin"], "one Service is scraped, or pods would count twice");
}
