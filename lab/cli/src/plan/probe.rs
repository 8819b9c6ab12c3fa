//! `meridian plan probe`: the responder on a server.

use std::io::{BufRead, Write};
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context;
use meridian_fleet::probe::{Responder, Spec, Token};

/// Answer the measurements of `plan verify` on a server
///
/// It takes the probe's protocol only, within limits, from peers that know the token.
#[derive(Debug, clap::Args)]
pub(super) struct Probe {
    /// Address of a card to listen at; give one for each card
    #[arg(long, value_name = "ADDR:PORT", required = true)]
    listen: Vec<SocketAddr>,
    /// Secret of all responders and of `plan verify`; beyond loopback it is required
    #[arg(long, env = "MERIDIAN_PROBE_TOKEN", hide_env_values = true)]
    token: Option<String>,
    /// End after this time without a measurement
    #[arg(long, value_parser = humantime::parse_duration, default_value = "10m")]
    idle: Duration,
    /// Read the token from the first line of stdin, and end with stdin, as `plan verify --ssh` needs
    #[arg(long)]
    stdin: bool,
}

/// Answers until it is idle or ended.
pub(super) fn run(args: &Probe) -> anyhow::Result<()> {
    let mut token = args.token.clone();
    if args.stdin {
        let mut line = String::new();
        std::io::stdin().lock().read_line(&mut line).context("--stdin: no line with a token")?;
        token = Some(line.trim().to_owned());
    }
    let token = token.filter(|text| !text.is_empty()).map(|text| Token::new(&text)).transpose()?;
    let responder =
        Responder::start(&Spec { listen: args.listen.clone(), token, idle: args.idle })?;
    if args.stdin {
        let ender = responder.ender();
        std::thread::spawn(move || {
            let _ = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
            ender.end();
        });
    }
    let mut out = std::io::stdout();
    for address in responder.addresses() {
        // The reader may have closed the pipe; the responder keeps running.
        let _ = writeln!(out, "listening on {address}").and_then(|()| out.flush());
    }
    responder.wait();
    Ok(())
}
