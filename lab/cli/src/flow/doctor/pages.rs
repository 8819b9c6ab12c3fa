//! The metrics pages of engines and gateways, read before and after the cards are watched.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{anyhow, bail};
use meridian_protocol::signals::{EngineTotals, GatewayTotals, engine_totals, gateway_totals};

use super::report::{EngineReport, GatewayReport};
use meridian_cli::http::{self, Secured};

/// An engine or a gateway.
pub(super) struct Server {
    pub(super) url: String,
    pub(super) is_gateway: bool,
    pub(super) token: Option<String>,
    pub(super) ca: Option<PathBuf>,
}

/// All of them: engines, then gateways.
pub(super) struct Servers(pub(super) Vec<Server>);

/// A page as it was read.
pub(super) struct Read {
    at: Instant,
    page: anyhow::Result<PagesPage>,
}

enum PagesPage {
    Engine(EngineTotals),
    Gateway(GatewayTotals),
}

/// An address as people write it, without the path of a page.
pub(super) fn address(given: &str) -> String {
    let given = given.trim_end_matches('/');
    let base = ["/metrics", "/v1"].iter().find_map(|path| given.strip_suffix(path));
    let base = base.unwrap_or(given);
    if base.contains("://") { base.to_owned() } else { format!("http://{base}") }
}

impl Servers {
    /// Reads all pages at the same time, as one that does not answer takes long.
    pub(super) fn read(&self) -> Vec<Read> {
        std::thread::scope(|scope| {
            let all: Vec<_> = self
                .0
                .iter()
                .map(|server| scope.spawn(|| Read { page: server.page(), at: Instant::now() }))
                .collect();
            all.into_iter().map(|one| one.join().expect("reading a page does not panic")).collect()
        })
    }
}

impl Server {
    fn page(&self) -> anyhow::Result<PagesPage> {
        let url = format!("{}/metrics", self.url);
        let secured = match (url.starts_with("https://"), &self.ca) {
            (false, _) => None,
            (true, Some(ca)) => Some(Secured::Gateway { ca, own: None }),
            (true, None) => bail!("name the CA of its certificate with --ca"),
        };
        let asked = http::ask("GET", &url, self.token.as_deref(), secured, String::new());
        let (status, body) = asked
            .map_err(|error| anyhow!("{error:#}; check that it runs, and its address and port"))?;
        match status {
            200 if self.is_gateway => Ok(PagesPage::Gateway(gateway_totals(body.as_bytes())?)),
            200 => Ok(PagesPage::Engine(engine_totals(body.as_bytes())?)),
            401 | 403 => bail!("it refuses to show its metrics ({status}); give --token"),
            _ => bail!("{url} answers {status}; give an address that serves /metrics"),
        }
    }
}

/// What moved between two readings of every server.
pub(super) fn moved(
    servers: &Servers,
    before: Vec<Read>,
    after: Vec<Read>,
) -> (Vec<EngineReport>, Vec<GatewayReport>) {
    let (mut engines, mut gateways) = (Vec::new(), Vec::new());
    for (server, (before, after)) in servers.0.iter().zip(before.into_iter().zip(after)) {
        let seconds = after.at.duration_since(before.at).as_secs_f64();
        let pages = before.page.and_then(|before| Ok((before, after.page?)));
        let url = server.url.clone();
        match pages {
            Ok((PagesPage::Engine(before), PagesPage::Engine(after))) => {
                engines.push(EngineReport::of(url, &before, &after, seconds));
            }
            Ok((PagesPage::Gateway(before), PagesPage::Gateway(after))) => {
                gateways.push(GatewayReport::of(url, &before, &after, seconds));
            }
            Ok(_) => unreachable!("a server is read as the same kind both times"),
            Err(error) => {
                let error = Some(format!("{error:#}"));
                match server.is_gateway {
                    true => gateways.push(GatewayReport { url, error, ..Default::default() }),
                    false => engines.push(EngineReport { url, error, ..Default::default() }),
                }
            }
        }
    }
    (engines, gateways)
}
