//! One request to a control plane, or to the first one of several that answers.
//!
//! They serve one registry, so any of them will do. A read is repeated at the next one whenever one
//! fails. A change is repeated only if the connection could not be made: otherwise it may have
//! been made, and to make it twice may undo what another operator did in between.

use std::path::PathBuf;

use anyhow::{Context, bail};
use meridian_protocol::intervals::Intervals;
use meridian_protocol::registry::Snapshot;
use meridian_tls::Files;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::http::{self, Secured};

/// Address of the control plane.
#[derive(clap::Args)]
pub(crate) struct Control {
    /// Admin address of the control plane; several of one registry are separated by commas
    #[arg(
        long,
        global = true,
        env = "MERIDIAN_CONTROL",
        default_value = "http://127.0.0.1:8090",
        value_name = "URL",
        value_delimiter = ',',
        value_parser = address
    )]
    control: Vec<String>,
    /// Token of the control plane, if it has one
    #[arg(long, global = true, env = "MERIDIAN_TOKEN", hide_env_values = true)]
    token: Option<String>,
    /// Certificates of the fleet's CA, for an https address
    #[arg(long, global = true, env = "MERIDIAN_CA", value_name = "FILE", requires_all = ["certificate", "key"])]
    ca: Option<PathBuf>,
    /// Client certificate
    #[arg(long, global = true, env = "MERIDIAN_CERTIFICATE", value_name = "FILE")]
    certificate: Option<PathBuf>,
    /// Key of the client certificate
    #[arg(long, global = true, env = "MERIDIAN_KEY", value_name = "FILE")]
    key: Option<PathBuf>,
}

impl Control {
    /// The whole registry.
    pub(super) fn snapshot(&self) -> anyhow::Result<Snapshot> {
        self.get("/admin/registry")
    }

    /// When gateways and replicas were up and down.
    pub(super) fn intervals(&self) -> anyhow::Result<Intervals> {
        self.get("/admin/intervals")
    }

    /// The answer to `GET path`, parsed.
    pub(super) fn get<T: DeserializeOwned>(&self, path: &str) -> anyhow::Result<T> {
        let (url, body) = self.ask("GET", path, "")?;
        parsed(&url, &body)
    }

    /// The answer to a `POST` of JSON, parsed.
    pub(super) fn post<T: DeserializeOwned>(&self, path: &str, body: &str) -> anyhow::Result<T> {
        let (url, body) = self.ask("POST", path, body)?;
        parsed(&url, &body)
    }

    /// Makes a change without a body.
    pub(super) fn change(&self, method: &str, path: &str) -> anyhow::Result<()> {
        self.ask(method, path, "").map(drop)
    }

    /// Makes a change with `value` as its body.
    pub(super) fn put(&self, path: &str, value: &impl Serialize) -> anyhow::Result<()> {
        self.ask("PUT", path, &serde_json::to_string(value)?).map(drop)
    }

    /// The certificates for an https address; `None` for http.
    fn tls(&self, url: &str) -> anyhow::Result<Option<Files>> {
        if !url.starts_with("https://") {
            return Ok(None);
        }
        let (Some(ca), Some(certificate), Some(key)) = (&self.ca, &self.certificate, &self.key)
        else {
            bail!("{url} is asked with certificates; name them with --ca, --certificate and --key");
        };
        let (certificate, key) = (certificate.clone(), key.clone());
        Ok(Some(Files { section: "-".into(), ca: Some(ca.clone()), crl: None, certificate, key }))
    }

    /// The answer of the first control plane that gives one, and its address.
    fn ask(&self, method: &str, path: &str, body: &str) -> anyhow::Result<(String, String)> {
        let (is_read, several) = (method == "GET", self.control.len() > 1);
        let mut failed = Vec::new();
        for address in &self.control {
            let url = format!("{address}{path}");
            let why = match self.ask_at(method, &url, body) {
                Ok((200..=299, body)) => return Ok((url, body)),
                Ok((500.., body)) if is_read && several => http::message(&body),
                Ok((_, body)) => bail!("{}", http::message(&body)),
                Err(error) if !is_read && http::may_have_arrived(&error) => {
                    let remedy = "list the records before you repeat it";
                    let text = format!("the change may have been made at {url}; {remedy}");
                    return Err(error.context(text));
                }
                Err(error) if several => format!("{error:#}"),
                Err(error) => {
                    let remedy = "start `meridian control`, or name another with --control";
                    let text = format!("no control plane answers at {url}; {remedy}");
                    return Err(error.context(text));
                }
            };
            failed.push(format!("{address} ({why})"));
        }
        assert_eq!(failed.len(), self.control.len(), "each control plane was asked");
        let all = failed.join(", ");
        bail!("no control plane answers: {all}; start one of them, or name others with --control")
    }

    fn ask_at(&self, method: &str, url: &str, body: &str) -> anyhow::Result<(u16, String)> {
        let tls = self.tls(url)?;
        let secured = tls.as_ref().map(Secured::Control);
        http::ask(method, url, self.token.as_deref(), secured, body.to_owned())
    }
}

/// One address of a list, without the slash at its end.
fn address(text: &str) -> Result<String, String> {
    match text.trim().trim_end_matches('/') {
        "" => Err("is empty; write http://host:port, and commas only between two".to_owned()),
        address => Ok(address.to_owned()),
    }
}

fn parsed<T: DeserializeOwned>(url: &str, body: &str) -> anyhow::Result<T> {
    serde_json::from_str(body).with_context(|| {
        format!("the answer of {url} has an unknown form; is it a control plane of this version?")
    })
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::sync::mpsc;

    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        control: Control,
    }

    fn control(urls: &[&str]) -> Control {
        Command::parse_from(["meridian", "--control", &urls.join(",")]).control
    }

    /// An address without a server.
    fn nobody() -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        format!("http://{}", listener.local_addr().unwrap())
    }

    /// A server that gives one answer to every request, or closes the connection if it is empty. The
    /// methods of its requests are received.
    fn server(answer: &'static str) -> (String, mpsc::Receiver<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (send, methods) = mpsc::channel();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let mut head = [0; 4096];
                let length = stream.read(&mut head).unwrap();
                let head = String::from_utf8_lossy(&head[..length]).into_owned();
                let method = head.split(' ').next().unwrap_or_default();
                if send.send(method.to_owned()).is_err() {
                    return;
                }
                stream.write_all(answer.as_bytes()).unwrap();
            }
        });
        (url, methods)
    }

    const FINE: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";
    const BROKEN: &str = "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{}";
    const LOST_STORE: &str = "HTTP/1.1 503 Service Unavailable\r\ncontent-length: 41\r\n\r\n{\"error\":{\"message\":\"the store is lost\"}}";
    const REFUSED: &str = "HTTP/1.1 404 Not Found\r\ncontent-length: 34\r\n\r\n{\"error\":{\"message\":\"no such eu\"}}";

    // A control plane that cannot be reached is passed over, by reads and by changes. If none can be
    // reached, the message names all of them.
    #[test]
    fn the_next_one_answers() {
        let ((fine, methods), dead) = (server(FINE), nobody());
        let both = control(&[&dead, &format!("{fine}/")]);
        assert_eq!(both.ask("GET", "/x", "").unwrap().0, format!("{fine}/x"));
        both.change("POST", "/x").unwrap();
        assert_eq!(methods.try_iter().collect::<Vec<_>>(), ["GET", "POST"]);

        let other = nobody();
        let error = control(&[&dead, &other]).change("POST", "/x").unwrap_err().to_string();
        assert!(error.starts_with(&format!("no control plane answers: {dead} (")), "{error}");
        assert!(error.contains(&other) && error.contains("start one of them"), "{error}");
        let error = control(&[&dead]).change("POST", "/x").unwrap_err().to_string();
        let expected = format!("no control plane answers at {dead}/x; start `meridian control`");
        assert!(error.starts_with(&expected), "{error}");
    }

    // A change that may have arrived is not repeated: without an answer, with half an answer, or
    // with an error of the store. A read is.
    #[test]
    fn no_change_is_made_twice() {
        let (fine, methods) = server(FINE);
        for (answer, text) in [
            ("", "the change may have been made at "),
            (BROKEN, "the change may have been made at "),
            (LOST_STORE, "the store is lost"),
        ] {
            let (bad, asked) = server(answer);
            let both = control(&[&bad, &fine]);
            let error = both.change("PUT", "/x").unwrap_err().to_string();
            assert!(error.starts_with(text), "{answer}: {error}");
            assert_eq!(methods.try_iter().count(), 0, "{answer}");
            both.ask("GET", "/x", "").unwrap();
            assert_eq!(methods.try_iter().collect::<Vec<_>>(), ["GET"], "{answer}");
            assert_eq!(asked.try_iter().collect::<Vec<_>>(), ["PUT", "GET"], "{answer}");
        }
    }

    // A refusal is the answer of the fleet, whichever control plane gives it.
    #[test]
    fn a_refusal_is_final() {
        let ((refuses, _asked), (fine, methods)) = (server(REFUSED), server(FINE));
        let both = control(&[&refuses, &fine]);
        for method in ["GET", "POST"] {
            let error = both.ask(method, "/x", "").unwrap_err().to_string();
            assert_eq!(error, "no such eu");
        }
        assert_eq!(methods.try_iter().count(), 0);
    }

    // Addresses are separated by commas, with or without spaces; an empty one is an error.
    #[test]
    fn lists_of_addresses() {
        let read = |text: &str| Command::try_parse_from(["meridian", "--control", text]);
        let all = read("http://c1:1/, http://c2:1").unwrap().control.control;
        assert_eq!(all, ["http://c1:1", "http://c2:1"]);
        let Err(error) = read("http://c1:1,") else { panic!("is an error") };
        assert!(error.to_string().contains("is empty; write http://host:port"), "{error}");
    }
}
