//! The probes of servers: where they listen, started over ssh if asked.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{anyhow, bail, ensure};
use meridian_fleet::probe::{Remote, Token};
use meridian_fleet::ssh;
use meridian_plan::verify::{Port, port};
use meridian_plan::{Topology, one_of};

use super::Verify;

/// The longest time until a probe listens.
const START: Duration = Duration::from_secs(30);

/// Probes that answer.
pub(super) struct Servers {
    pub(super) remotes: BTreeMap<Port, Remote>,
    /// Those that were started end with this value.
    _started: Vec<ssh::Running>,
}

impl Servers {
    /// Starts the probes if asked, and checks that all answer; names every one that does not.
    pub(super) fn reach(args: &Verify, topology: &Topology) -> anyhow::Result<Servers> {
        let at = addresses(&args.at, topology)?;
        let mut started = Vec::new();
        let token = match (&args.token, args.ssh) {
            (None, true) => {
                let (token, text) = Token::random()?;
                started = start(args, topology, &at, &text)?;
                token
            }
            (Some(text), true) => {
                started = start(args, topology, &at, text)?;
                Token::new(text)?
            }
            (text, false) => Token::new(text.as_deref().unwrap_or_default())?,
        };
        let (mut remotes, mut failed) = (BTreeMap::new(), Vec::new());
        for (port, address) in at {
            match Remote::new(address, &token) {
                Ok(remote) => {
                    remotes.insert(port, remote);
                }
                Err(error) => failed.push(format!("{}: {error}", port.text(topology))),
            }
        }
        ensure!(failed.is_empty(), "probes do not answer\n{}", failed.join("\n"));
        Ok(Servers { remotes, _started: started })
    }

    /// The cards with a probe.
    pub(super) fn ports(&self) -> Vec<Port> {
        self.remotes.keys().copied().collect()
    }
}

/// The address of each card, from `SERVER=ADDR:PORT`.
fn addresses(at: &[String], topology: &Topology) -> anyhow::Result<BTreeMap<Port, SocketAddr>> {
    let (mut all, mut wrong) = (BTreeMap::new(), Vec::new());
    for text in at {
        let Some((name, address)) = text.split_once('=') else {
            wrong.push(format!("--at: {text}; write SERVER=ADDR:PORT, as in a100-0=10.0.0.1:7000"));
            continue;
        };
        let address: Result<SocketAddr, _> = address.parse();
        if address.is_err() {
            let remedy = "use the numeric address of the card, and the port of its probe";
            wrong.push(format!("--at: {text}; {remedy}, as in {name}=10.0.0.1:7000"));
        }
        match (port(topology, name), address) {
            (Err(problem), _) => wrong.push(problem.to_string()),
            (Ok(_), Err(_)) => {}
            (Ok(_), Ok(address)) if all.values().any(|one| *one == address) => {
                wrong.push(format!("--at: {text}; another card has this address already"));
            }
            (Ok(port), Ok(address)) => {
                if all.insert(port, address).is_some() {
                    wrong.push(format!("--at: {text}; this card has an address already"));
                }
            }
        }
    }
    if !wrong.is_empty() {
        bail!("{}", wrong.join("\n"));
    }
    Ok(all)
}

/// Starts the probe of each server on the host of its name.
fn start(
    args: &Verify,
    topology: &Topology,
    at: &BTreeMap<Port, SocketAddr>,
    token: &str,
) -> anyhow::Result<Vec<ssh::Running>> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-._/~+".contains(c);
    ensure!(
        args.program.chars().all(plain),
        "--program: {:?}; use a path of letters, digits and -._/~+, as the remote shell reads it",
        args.program
    );
    let mut hosts: BTreeMap<u32, Vec<String>> = BTreeMap::new();
    for (port, address) in at {
        hosts.entry(port.server).or_default().extend(["--listen".to_owned(), address.to_string()]);
    }
    let (mut running, mut failed) = (Vec::new(), Vec::new());
    for (server, listen) in hosts {
        let host = &topology.servers()[server as usize].name;
        let mut command = vec![args.program.as_str(), "plan", "probe", "--stdin"];
        command.extend(listen.iter().map(String::as_str));
        match ssh::start(host, &command, &format!("{token}\n"), START) {
            Ok((one, line)) if line.starts_with("listening on ") => running.push(one),
            Ok((_, line)) => failed.push(format!("ssh {host}: it printed `{line}`")),
            Err(error) => failed.push(error.to_string()),
        }
    }
    if failed.is_empty() {
        return Ok(running);
    }
    let known: Vec<&str> = topology.servers().iter().map(|one| one.name.as_str()).collect();
    Err(anyhow!(
        "probes could not be started\n{}\nthe hosts are the names of the topology's servers: {}",
        failed.join("\n"),
        one_of("", &known)
    ))
}
