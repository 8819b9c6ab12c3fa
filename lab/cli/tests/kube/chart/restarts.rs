//! Which changes of the gateway's file replace pods: those of the keys that a reload does not adopt, as the
//! program itself lists them.

use std::process::Command;

use serde_json::{Value, json};

use super::Chart;

// For every key of the file: a new value changes the pods' annotation if and only if the key needs a restart.
#[tokio::test]
async fn only_keys_that_need_a_restart() {
    let chart = Chart::ours().await;
    let folder = std::env::temp_dir().join(format!("meridian-restarts-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("makes the folder");
    let file = folder.join("values.yaml");
    let mark = |config: &Value| {
        std::fs::write(&file, json!({"config": config}).to_string()).expect("writes");
        let text = chart.render(&["--values", &file.display().to_string()]);
        let text = text.unwrap_or_else(|error| panic!("{config}: {error}"));
        let line = text.lines().find_map(|line| line.trim().strip_prefix("meridian/restart: "));
        line.expect("pods have it").to_owned()
    };
    // Whether there is `tls` at all needs a restart, so it is there from the start.
    let base = json!({"tls": {"certificate": "a", "key": "b"}});
    let before = mark(&base);
    let keys = keys();
    let restarts = keys.iter().filter(|(_, reloads)| !reloads).count();
    assert!(restarts > 20 && keys.len() - restarts > 60, "{keys:?}");
    for (key, reloads) in keys {
        let mut config = base.clone();
        let mut place = &mut config;
        for part in key.split('.') {
            place = &mut place[part];
        }
        *place = other(&key);
        assert_eq!(mark(&config) == before, reloads, "{key}: reloads is {reloads}");
    }
    assert_ne!(mark(&json!({})), before, "there is no tls any more");
    std::fs::remove_dir_all(&folder).expect("removes the folder");
}

/// A value that the chart does not set, of a form that it can read.
fn other(key: &str) -> Value {
    match key {
        "listen" => json!("[::]:8080"),
        "admin" => json!("[::]:8081"),
        "peers.listen" => json!("[::]:8082"),
        "timeouts.drain" => json!("1m"),
        "discovery" => json!([{"dns": "vllm:8000"}]),
        _ => json!("other"),
    }
}

/// Each key of the file, and whether it reloads.
fn keys() -> Vec<(String, bool)> {
    let mut command = Command::new(crate::programs::MERIDIAN);
    let done = command.args(["config", "keys"]).output();
    let done = done.expect("meridian is built: cargo build --package meridian");
    let text = String::from_utf8_lossy(&done.stdout).into_owned();
    let mut keys = Vec::new();
    for line in text.lines() {
        match line.trim().strip_prefix("reloads: ") {
            Some(reloads) => keys.last_mut().map(|(_, last)| *last = reloads == "yes"),
            None if line.starts_with(' ') || line.is_empty() => None,
            None => {
                keys.push((line.to_owned(), false));
                None
            }
        };
    }
    keys
}
