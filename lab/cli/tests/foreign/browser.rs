//! A headless Chromium, controlled over a pipe with the DevTools protocol: each message is a JSON
//! object and a zero byte.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Instant;

use serde_json::{Value, json};

use crate::common::LIMIT;

/// Chromium reads commands from descriptor 3 and answers on 4; the shell connects them to our pipe.
const START: &str = "exec \"$0\" --headless --no-sandbox --disable-gpu --no-first-run \
    --disable-background-networking --hide-scrollbars --user-data-dir=\"$1\" \
    --remote-debugging-pipe 3<&0 4>&1 1>/dev/null 2>&1";
/// Chromium's names on Debian and elsewhere.
const NAMES: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// A browser with one page open.
pub(crate) struct Browser {
    child: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
    next: u64,
    session: Option<String>,
    /// Events of the page so far.
    events: Vec<Value>,
}

impl Browser {
    /// Opens a page; `profile` is a directory of the browser's own.
    ///
    /// # Panics
    /// If Chromium is not installed, because the page cannot be tested without a browser.
    pub(crate) fn open(url: &str, profile: &std::path::Path) -> Browser {
        let there = |name: &&&str| {
            let mut asked = Command::new(name);
            asked.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
            asked.status().is_ok_and(|status| status.success())
        };
        let chromium = NAMES.iter().find(there);
        let chromium = chromium.expect("chromium is missing: apt-get install chromium");
        let mut child = Command::new("/bin/sh")
            .args(["-c", START, chromium])
            .arg(profile)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("there is a shell");
        let orders = child.stdin.take().expect("stdin was asked to be a pipe");
        let answers = BufReader::new(child.stdout.take().expect("stdout was asked to be a pipe"));
        let (next, session, events) = (0, None, Vec::new());
        let mut browser = Browser { child, orders, answers, next, session, events };
        let page = browser.ask("Target.createTarget", json!({ "url": "about:blank" }));
        let attach = json!({ "targetId": page["targetId"], "flatten": true });
        let session = browser.ask("Target.attachToTarget", attach);
        browser.session = session["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.ask(&format!("{domain}.enable"), json!({}));
        }
        browser.ask("Page.navigate", json!({ "url": url }));
        browser
    }

    /// The value of a script, as JSON.
    pub(crate) fn evaluate(&mut self, script: &str) -> Value {
        let script = json!({ "expression": script, "returnByValue": true, "awaitPromise": true });
        let answer = self.ask("Runtime.evaluate", script);
        assert!(answer["exceptionDetails"].is_null(), "{}", answer["exceptionDetails"]);
        answer["result"]["value"].clone()
    }

    /// Waits until a script evaluates to true.
    pub(crate) fn when(&mut self, what: &str, script: &str) {
        let start = Instant::now();
        while self.evaluate(script) != json!(true) {
            if start.elapsed() > LIMIT {
                let text = self.evaluate("document.body.innerText");
                panic!("{what}: not within {LIMIT:?}\n{}", text.as_str().unwrap_or_default());
            }
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
    }

    /// Clicks on the element of a selector.
    pub(crate) fn click(&mut self, selector: &str) {
        let selector = json!(selector);
        self.evaluate(&format!("document.querySelector({selector}).click()"));
    }

    /// Presses a key: `Tab`, `Enter` or `Escape`.
    pub(crate) fn key(&mut self, key: &str) {
        let code = match key {
            "Tab" => 9,
            "Enter" => 13,
            _ => 27,
        };
        let text = if key == "Enter" { "\r" } else { "" };
        for kind in ["keyDown", "keyUp"] {
            let event = json!({
                "type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code, "text": text,
            });
            self.ask("Input.dispatchKeyEvent", event);
        }
    }

    /// Sets the size of the window in CSS pixels, and the colours that the system prefers.
    pub(crate) fn window(&mut self, (width, height): (u32, u32), colours: &str) {
        let size = json!({
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600,
        });
        self.ask("Emulation.setDeviceMetricsOverride", size);
        let prefers = json!([{ "name": "prefers-color-scheme", "value": colours }]);
        self.ask("Emulation.setEmulatedMedia", json!({ "features": prefers }));
    }

    /// Errors and warnings on the console, exceptions, and requests to other hosts than `own`.
    pub(crate) fn complaints(&mut self, own: &str) -> Vec<String> {
        // Its answer comes after the events of everything before it.
        self.evaluate("0");
        let complaint = |event: &Value| {
            let params = &event["params"];
            let is_bad = |level: &Value| level == "error" || level == "warning";
            match event["method"].as_str()? {
                "Runtime.exceptionThrown" => Some(params.to_string()),
                "Runtime.consoleAPICalled" => is_bad(&params["type"]).then(|| params.to_string()),
                "Log.entryAdded" => {
                    is_bad(&params["entry"]["level"]).then(|| params["entry"].to_string())
                }
                "Network.requestWillBeSent" => {
                    let url = params["request"]["url"].as_str()?;
                    let is_own = url.starts_with(own) || url.starts_with("data:");
                    (!is_own).then(|| url.to_owned())
                }
                _ => None,
            }
        };
        self.events.iter().filter_map(complaint).collect()
    }

    fn ask(&mut self, method: &str, params: Value) -> Value {
        self.next += 1;
        let mut order = json!({ "id": self.next, "method": method, "params": params });
        if let Some(session) = &self.session {
            order["sessionId"] = json!(session);
        }
        let mut bytes = order.to_string().into_bytes();
        bytes.push(0);
        self.orders.write_all(&bytes).expect("the browser listens");
        loop {
            let mut answer = Vec::new();
            let read = self.answers.read_until(0, &mut answer).expect("the browser answers");
            assert!(read > 0, "the browser is gone");
            answer.pop();
            let answer: Value = serde_json::from_slice(&answer).expect("the browser speaks JSON");
            if answer["id"] == json!(self.next) {
                assert!(answer["error"].is_null(), "{method}: {}", answer["error"]);
                return answer["result"].clone();
            }
            // Events have no id.
            self.events.push(answer);
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
