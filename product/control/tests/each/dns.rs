//! The name server of the fleet's zone: its answers follow the registry.

use std::net::UdpSocket;
use std::time::Duration;

use serde_json::{Value, json};

use crate::plane::Plane;
use crate::ports::free_port;
use crate::stores;

/// The section, with a port that is free now.
fn section() -> (String, u16) {
    let port = free_port();
    let text = format!(
        "dns:\n  listen: ['127.0.0.1:{port}']\n  zone: llm.example.org\n  \
         nameservers: {{ns1: [192.0.2.53]}}\n  clients: {{eu: [10.1.0.0/16], us: [10.2.0.0/16]}}\n"
    );
    (text, port)
}

async fn announced(plane: &Plane, name: &str, region: &str, public: &str) -> String {
    let gateway = json!({
        "region": region, "address": "http://127.0.0.1:8080", "version": "1", "public": [public],
    });
    let body = json!({"gateway": gateway, "lease": "3s"});
    let (status, said) = plane.ask("POST", &format!("/admin/gateways/{name}"), body).await;
    assert_eq!(status, 201, "{said}");
    said["lease"].as_str().unwrap().to_owned()
}

async fn of_client(plane: &Plane, client: &str) -> (Vec<String>, String) {
    let said = plane.get(&format!("/admin/names?client={client}")).await;
    let row = &said["rows"][0];
    let addresses = row["addresses"].as_array().unwrap().iter();
    let addresses = addresses.map(|a| a.as_str().unwrap().to_owned()).collect();
    (addresses, row["why"].as_str().unwrap().to_owned())
}

/// An A query for the zone, with the subnet of its client, and the answer's code and bytes.
fn asked(port: u16, client: [u8; 3]) -> (u8, Vec<u8>) {
    let mut query = vec![0, 7, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1];
    for label in ["llm", "example", "org"] {
        query.push(label.len() as u8);
        query.extend(label.bytes());
    }
    // The root, type A, class IN; then OPT with a subnet of 24 bits.
    query.extend([0, 0, 1, 0, 1, 0, 0, 41, 4, 208, 0, 0, 0, 0, 0, 11, 0, 8, 0, 7, 0, 1, 24, 0]);
    query.extend(client);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    socket.send_to(&query, ("127.0.0.1", port)).unwrap();
    let mut answer = vec![0; 1500];
    let read = socket.recv(&mut answer).expect("the name server answers");
    answer.truncate(read);
    (answer[3] & 15, answer)
}

async fn answers(port: u16, client: [u8; 3]) -> (u8, Vec<u8>) {
    tokio::task::spawn_blocking(move || asked(port, client)).await.unwrap()
}

fn has(bytes: &[u8], address: [u8; 4]) -> bool {
    bytes.windows(4).any(|four| four == address)
}

// Clients get their own region's gateways; those of the nearest one while theirs drains, has left or
// is lost; and SERVFAIL without any. The view says why. A gateway that returns is in the answers again.
#[tokio::test]
async fn names_follow_the_registry() {
    let (section, port) = section();
    let plane = stores::plane(&section).await;
    assert_eq!(answers(port, [10, 1, 2]).await.0, 2, "SERVFAIL");
    let set = json!({"rtt_ms": {"us": 92.0}});
    assert_eq!(plane.ask("PUT", "/admin/regions/eu?force=true", set).await.0, 200);
    let eu = announced(&plane, "eu-1", "eu", "203.0.113.1").await;
    let us = announced(&plane, "us-1", "us", "203.0.113.2").await;
    stores::until(async || of_client(&plane, "10.2.0.1").await.0 == ["203.0.113.2"]).await;
    let (addresses, why) = of_client(&plane, "10.1.2.3").await;
    assert_eq!(addresses, ["203.0.113.1"]);
    assert!(why.contains("10.1.0.0/16 is eu; their own region"), "{why}");
    let (code, bytes) = answers(port, [10, 1, 2]).await;
    assert!(code == 0 && has(&bytes, [203, 0, 113, 1]) && !has(&bytes, [203, 0, 113, 2]));

    plane.ask("POST", "/admin/regions/eu/drain", Value::Null).await;
    stores::until(async || of_client(&plane, "10.1.2.3").await.0 == ["203.0.113.2"]).await;
    let (_, why) = of_client(&plane, "10.1.2.3").await;
    assert!(why.contains("the nearest that can, 92 ms away; eu: draining"), "{why}");
    assert!(has(&answers(port, [10, 1, 2]).await.1, [203, 0, 113, 2]));
    plane.ask("POST", "/admin/regions/eu/undrain", Value::Null).await;
    stores::until(async || of_client(&plane, "10.1.2.3").await.0 == ["203.0.113.1"]).await;

    // One leaves in order, the other's lease runs out.
    let leave = format!("/admin/gateways/eu-1?lease={eu}");
    assert_eq!(plane.ask("DELETE", &leave, Value::Null).await.0, 200);
    let renew = json!({"lease": us});
    let moved = async || {
        assert_eq!(plane.ask("PUT", "/admin/gateways/us-1", renew.clone()).await.0, 200);
        of_client(&plane, "10.1.2.3").await.0 == ["203.0.113.2"]
    };
    stores::until(moved).await;
    stores::until(async || of_client(&plane, "10.1.2.3").await.0.is_empty()).await;
    assert_eq!(answers(port, [10, 1, 2]).await.0, 2, "SERVFAIL");
    announced(&plane, "eu-1", "eu", "203.0.113.9").await;
    stores::until(async || of_client(&plane, "10.2.2.3").await.0 == ["203.0.113.9"]).await;
    let page = plane.text("/metrics").await;
    let counted = r#"meridian_dns_queries_total{kind="A",outcome="servfail",region=""} 2"#;
    assert!(page.contains(counted), "{page}");
    let all = plane.get("/admin/names").await;
    let row = all["rows"].as_array().unwrap().iter().find(|row| row["client"] == "clients of us");
    assert_eq!(row.unwrap()["regions"], json!(["eu"]));
}

// Bad settings are named with their field, value and remedy, all at once; and so is a client that is no
// address.
#[tokio::test]
async fn bad_settings_are_reported() {
    let file = std::env::temp_dir().join(format!("meridian-clients-{}", std::process::id()));
    std::fs::write(&file, "10.1.2.3/16 eu\n").unwrap();
    let yaml = format!(
        "version: 1\nstore: a.redb\ndns:\n  listen: ['127.0.0.1:0']\n  zone: 'a b'\n  \
         nameservers: {{ns1: []}}\n  clients_file: {}\n",
        file.display()
    );
    let config = meridian_config::Control::read(&yaml).unwrap();
    let problems = meridian_control::serve::check(&config).join("; ");
    for part in ["dns.zone: a b: not a name", "dns.nameservers.ns1:", ":1: 10.1.2.3/16"] {
        assert!(problems.contains(part), "{part}: {problems}");
    }
    std::fs::remove_file(file).unwrap();
    let (section, _) = section();
    let plane = stores::plane(&section).await;
    let (status, said) = plane.ask("GET", "/admin/names?client=x", Value::Null).await;
    assert_eq!((status, &said["error"]["code"]), (400, &json!("invalid_client")));
}

// A control plane without the section says so.
#[tokio::test]
async fn a_control_plane_without_names() {
    let none = stores::plane("").await;
    let (status, said) = none.ask("GET", "/admin/names", Value::Null).await;
    assert_eq!((status, &said["error"]["code"]), (404, &json!("no_dns")));
    let (status, said) = none.ask("GET", "/admin/route53", Value::Null).await;
    assert_eq!((status, &said["error"]["code"]), (404, &json!("no_route53")));
}
