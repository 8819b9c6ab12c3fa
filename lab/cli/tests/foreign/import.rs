//! `meridian import nginx` beside nginx itself: the same file, the same engines, the same answers.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::common::{LIMIT, chat, fleet, must};
use meridian_fleet::{Answer, Client, EngineSpec, Event, Fleet, Process, Program, free_port};
use serde_json::Value;

/// A configuration that follows nginx's guides for streamed answers, with limits that both programs
/// have.
fn nginx_conf(dir: &Path, listen: &str, engines: &[Process]) -> String {
    let dir = dir.display();
    let servers: String = engines
        .iter()
        .map(|engine| engine.said(0).trim_start_matches("http://"))
        .map(|address| format!("        server {address} max_fails=3 fail_timeout=10s;\n"))
        .collect();
    format!(
        "worker_processes 1;\ndaemon off;\npid {dir}/nginx.pid;\nerror_log {dir}/nginx.err warn;\n\
         events {{\n    worker_connections 64;\n}}\n\
         http {{\n    access_log off;\n    client_max_body_size 1k;\n\
         \x20   client_body_temp_path {dir}/body;\n    proxy_temp_path {dir}/proxy;\n\
         \x20   fastcgi_temp_path {dir}/fastcgi;\n    uwsgi_temp_path {dir}/uwsgi;\n\
         \x20   scgi_temp_path {dir}/scgi;\n\
         \x20   upstream engines {{\n        least_conn;\n{servers}        keepalive 8;\n    }}\n\
         \x20   server {{\n        listen {listen};\n        location / {{\n\
         \x20           proxy_pass http://engines;\n            proxy_http_version 1.1;\n\
         \x20           proxy_set_header Connection \"\";\n            proxy_buffering off;\n\
         \x20           proxy_read_timeout 60s;\n        }}\n    }}\n}}\n"
    )
}

/// Starts nginx with this file. On Debian it is not in the PATH of users.
async fn nginx(fleet: &Fleet, conf: &Path) -> Process {
    let path =
        ["/usr/sbin/nginx", "/usr/bin/nginx"].into_iter().find(|path| Path::new(path).is_file());
    let path = path.expect("nginx is missing: on Debian, apt-get install nginx-light");
    let errors = fleet.dir().join("nginx.err");
    let args = ["-c".as_ref(), conf.as_os_str(), "-e".as_ref(), errors.as_os_str()];
    must(fleet.start(Program::new("nginx", path).args(args)).await)
}

/// The parts of an answer that are the same for two equal requests: everything but id and time.
#[derive(Debug, PartialEq)]
struct Seen {
    status: u16,
    model: Value,
    content: Value,
    finish: Value,
    tokens: Value,
}

async fn ask(client: &Client, url: &str, body: String) -> Answer {
    let start = Instant::now();
    loop {
        match client.post(&format!("{url}/v1/chat/completions"), body.clone()).await {
            // A gateway that has just started has no healthy replica yet.
            Ok(answer) if answer.status != 503 => return answer,
            other => assert!(start.elapsed() < LIMIT, "{url}: {other:?}"),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn seen(client: &Client, url: &str, body: String) -> Seen {
    let answer = ask(client, url, body).await;
    let value = answer.value();
    Seen {
        status: answer.status,
        model: value["model"].clone(),
        content: value["choices"][0]["message"]["content"].clone(),
        finish: value["choices"][0]["finish_reason"].clone(),
        tokens: value["usage"]["completion_tokens"].clone(),
    }
}

/// The text of a stream, and whether it ended properly. The number of words in an event depends on
/// timing, so events are not compared.
async fn streamed(client: &Client, url: &str, body: String) -> (String, bool) {
    let answer = ask(client, url, body).await;
    let events = answer.events();
    let content =
        |event: &Event| event.value()["choices"][0]["delta"]["content"].as_str().map(str::to_owned);
    (events.iter().filter_map(content).collect(), events.last().is_some_and(Event::is_done))
}

// nginx serves two engines from a file. Then the gateway serves them at the same address, from the
// configuration that the import made of this file. Clients get the same answers, whole and
// streamed, and the same refusal of a body that is too large. What the import leaves out (temporary
// folders, logs, buffering) does not change them.
#[tokio::test]
async fn a_gateway_takes_the_place_of_nginx() {
    let fleet = fleet();
    let client = Client::new();
    let spec = EngineSpec { time_scale: 100.0, ..EngineSpec::default() };
    let engines = [must(fleet.engine("e0", &spec).await), must(fleet.engine("e1", &spec).await)];
    let listen = format!("127.0.0.1:{}", must(free_port()));
    let url = format!("http://{listen}");
    let conf = fleet.dir().join("nginx.conf");
    std::fs::write(&conf, nginx_conf(fleet.dir(), &listen, &engines)).expect("writes");

    let of = |stream: bool| chat("hello", 8, stream).replace("meridian-tiny", "llama-3.1-8b");
    let large = of(false).replace("hello", &"hello ".repeat(500));
    let mut server = nginx(&fleet, &conf).await;
    let by_nginx = (seen(&client, &url, of(false)).await, streamed(&client, &url, of(true)).await);
    assert_eq!((by_nginx.0.status, by_nginx.1.1), (200, true), "{by_nginx:?}");
    assert_eq!(ask(&client, &url, large.clone()).await.status, 413);
    server.terminate();
    must(server.wait(LIMIT).await);

    let output =
        Command::new(crate::programs::MERIDIAN).args(["import", "nginx"]).arg(&conf).output();
    let output = output.expect("the binary runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    for kept in ["server", "least_conn", "listen", "location", "proxy_pass", "proxy_read_timeout"] {
        assert!(!said.contains(&format!("not converted: {kept} ")), "{said}");
    }
    assert!(!said.contains("client_max_body_size"), "{said}");
    let yaml = String::from_utf8(output.stdout).expect("is text") + "admin: 127.0.0.1:0\n";
    let path = fleet.dir().join("imported.yaml");
    std::fs::write(&path, &yaml).expect("writes");
    let args = ["gateway".as_ref(), "-c".as_ref(), path.as_os_str()];
    let gateway = must(fleet.meridian("gateway", args, &["listening on "]).await);
    assert_eq!(gateway.said(0), url, "{yaml}");

    let by_meridian =
        (seen(&client, &url, of(false)).await, streamed(&client, &url, of(true)).await);
    assert_eq!(by_meridian, by_nginx, "{yaml}");
    assert_eq!(ask(&client, &url, large).await.status, 413);
}
