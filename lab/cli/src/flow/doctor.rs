//! `meridian flow doctor`: would flow scheduling be worth anything on this host?
//!
//! Watches the byte counters of the host's cards, reads the metrics of engines and gateways before and
//! after, and looks up the use of the busiest card in the table that the simulation wrote. It changes
//! nothing and needs no rights beyond reading `/sys`.

mod pages;
mod report;
mod text;
mod watch;

use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use meridian_cards::counters::{self, Host, Rate};
use meridian_cards::worth::Layers;

use pages::{Server, Servers};

/// The shortest time that is watched, since the busiest second must fit.
const SHORTEST: Duration = Duration::from_secs(1);
/// The longest time, which bounds the number of readings.
const LONGEST: Duration = Duration::from_secs(3600);

/// Measure this host's cards, and look up what flow scheduling would be worth
#[derive(Debug, clap::Args)]
pub(crate) struct Doctor {
    /// Time to watch, at the usual load
    #[arg(long = "for", default_value = "10s", value_name = "TIME", value_parser = humantime::parse_duration)]
    span: Duration,
    /// Watch only this card, such as eth0 or mlx5_0; may be repeated [default: all with a link]
    #[arg(long, value_name = "CARD")]
    card: Vec<String>,
    /// Rate of a card that does not tell its own, as in eth0=25Gbps; may be repeated
    #[arg(long, value_name = "CARD=RATE", value_parser = rate)]
    rate: Vec<(String, Rate)>,
    /// vLLM engine whose transfer metrics to read, as in http://host:8000; may be repeated
    #[arg(long, value_name = "URL")]
    engine: Vec<String>,
    /// Admin address of a gateway whose prefill legs to read; may be repeated
    #[arg(long, value_name = "URL")]
    gateway: Vec<String>,
    /// Token of the gateways' admin ports, if they need one
    #[arg(long, env = "MERIDIAN_ADMIN_TOKEN", hide_env_values = true)]
    token: Option<String>,
    /// CA certificates that verify https addresses
    #[arg(long, env = "MERIDIAN_ADMIN_CA", value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Layers of KV that an engine sends as one transfer: 1, 4 or all
    #[arg(long, default_value_t = Layers::All, value_name = "LAYERS")]
    kv_layers: Layers,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(super) fn run(args: &Doctor) -> anyhow::Result<()> {
    ensure!(
        (SHORTEST..=LONGEST).contains(&args.span),
        "--for {}: watch for 1s to 1h",
        humantime::format_duration(args.span)
    );
    let servers = args.servers();
    let host = Host::here();
    let found = counters::find(&host, &args.card, &args.rate)?;
    ensure!(
        !found.cards.is_empty() || !servers.0.is_empty(),
        "no card of this host has a cable and a link; name one with --card"
    );
    if !args.json {
        let names: Vec<&str> = found.cards.iter().map(|card| card.name.as_str()).collect();
        let span = humantime::format_duration(args.span);
        eprintln!("watching {} for {span}", names.join(", "));
    }
    let before = servers.read();
    let (uses, took) = watch::watch(&host, &found.cards, args.span);
    let after = servers.read();
    let moved = pages::moved(&servers, before, after);
    let report = report::report(&found, &uses, took, moved, args.kv_layers);
    let text = match args.json {
        true => serde_json::to_string_pretty(&report).context("the report as JSON")? + "\n",
        false => text::text(&report),
    };
    std::io::stdout().lock().write_all(text.as_bytes())?;
    Ok(())
}

impl Doctor {
    fn servers(&self) -> Servers {
        let server = |url: &String, is_gateway: bool| Server {
            url: pages::address(url),
            is_gateway,
            token: self.token.clone().filter(|_| is_gateway),
            ca: self.ca.clone(),
        };
        let engines = self.engine.iter().map(|url| server(url, false));
        Servers(engines.chain(self.gateway.iter().map(|url| server(url, true))).collect())
    }
}

/// Reads `CARD=RATE`.
fn rate(text: &str) -> Result<(String, Rate), String> {
    let (card, rate) = text
        .split_once('=')
        .filter(|(card, _)| !card.is_empty())
        .ok_or("write the card and its rate, as in eth0=25Gbps")?;
    let rate = rate.parse().map_err(|error: counters::CardsError| error.to_string())?;
    Ok((card.to_owned(), rate))
}
