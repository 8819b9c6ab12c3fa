//! The name server: one name for all regions, answered from the registry.
//!
//! It follows the registry as the intervals do. While the store is lost it keeps the last state:
//! another answer would be a guess, and none would be an outage.

mod show;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use meridian_config as config;
use meridian_dns::{
    ClientMap, Counters, Entry, Fleet, Limits, Place, Problem, Region, Settings, Sockets, State,
    Zone, entries_of_text, serve, warnings,
};
use meridian_protocol::registry::{Wanted, distances, public_addresses};
use meridian_tls::{LOOK, Look, Reread};
use tokio::net::{TcpListener, UdpSocket};
use tokio::sync::watch;
use tokio::time::interval;

use super::{ServeError, Shared};
use crate::registry::View;

pub(super) use show::names;

/// The name server's settings, and the state that it answers from.
pub(super) struct Dns {
    map: Reread<Arc<ClientMap>>,
    state: watch::Sender<Arc<State>>,
    pub(super) counters: Arc<Counters>,
}

impl Dns {
    /// Reads the settings and the map of clients.
    pub(super) fn load(config: &config::Dns) -> Result<Dns, ServeError> {
        let settings = Settings {
            zone: config.zone.clone(),
            nameservers: config.nameservers.clone(),
            ttl: config.ttl.0,
            negative_ttl: config.negative_ttl.0,
            contact: config.contact.clone(),
        };
        let zone = Zone::new(&settings);
        let paths = config.clients_file.iter().cloned().collect();
        let again = config.clone();
        let map = Reread::new(paths, move || map(&again).map(Arc::new).map_err(|bad| all(&bad)));
        let (zone, map) = match (zone, map) {
            (Ok(zone), Ok(map)) => (zone, map),
            (zone, map) => {
                let zone = zone.err().map(|bad| all(&bad));
                let problems: Vec<_> = zone.into_iter().chain(map.err()).collect();
                return Err(ServeError::Dns(problems.join("; ")));
            }
        };
        let first = State { zone, map: Arc::clone(&map.now()), fleet: Fleet::default() };
        // A file that an editor has written by half still has valid lines.
        let map = map.settled();
        Ok(Dns { map, state: watch::Sender::new(Arc::new(first)), counters: Arc::default() })
    }

    /// Reads the file of clients again if it changed, or if `now`.
    pub(super) fn look(&self, now: bool) {
        match if now { self.map.reload() } else { self.map.look() } {
            Look::New => tracing::info!("the map of clients was read"),
            Look::Bad(problem) => {
                tracing::error!(%problem, "the map of clients cannot be read; the old one stays in use");
            }
            Look::Same => {}
        }
    }

    /// Answers from this fleet from now on, and logs doubts about it once.
    fn update(&self, fleet: Fleet, doubts: &mut Vec<Problem>) {
        let (before, map) = (self.state.borrow().clone(), self.map.now());
        if before.fleet == fleet && Arc::ptr_eq(&before.map, &map) {
            return;
        }
        let state = State { zone: before.zone.clone(), map: Arc::clone(&map), fleet };
        let now = warnings(&state);
        for doubt in now.iter().filter(|doubt| !doubts.contains(doubt)) {
            tracing::warn!("dns: {doubt}");
        }
        *doubts = now;
        self.state.send_replace(Arc::new(state));
    }
}

/// All problems in one text, with the section's name before the fields.
fn all(problems: &[Problem]) -> String {
    let text = |problem: &Problem| {
        // A place in a file names itself.
        let section = if problem.field.contains(':') { "" } else { "dns." };
        format!("{section}{problem}")
    };
    problems.iter().map(text).collect::<Vec<_>>().join("; ")
}

fn map(config: &config::Dns) -> Result<ClientMap, Vec<Problem>> {
    let fields: BTreeMap<String, (&String, &Vec<String>)> = config
        .clients
        .iter()
        .map(|(region, prefixes)| (format!("clients.{region}"), (region, prefixes)))
        .collect();
    let mut entries = Vec::new();
    for (field, (region, prefixes)) in &fields {
        let place = Place::Field(field);
        entries.extend(prefixes.iter().map(|prefix| Entry { place, prefix, region }));
    }
    let (name, text) = match &config.clients_file {
        Some(path) => (path.display().to_string(), read(path)?),
        None => (String::new(), String::new()),
    };
    entries.extend(entries_of_text(&name, &text)?);
    ClientMap::new(entries, config.default.as_deref())
}

fn read(path: &Path) -> Result<String, Vec<Problem>> {
    meridian_files::read_text(path, meridian_files::MOST).map_err(|error| {
        vec![Problem {
            field: "clients_file".to_owned(),
            value: path.display().to_string(),
            cause: error.to_string(),
            remedy: "name a file with a line PREFIX REGION for each".to_owned(),
        }]
    })
}

/// Listens on every address for both transports.
pub(super) async fn bind(config: &config::Dns) -> Result<Sockets, ServeError> {
    let mut sockets = Sockets::default();
    for &addr in &config.listen {
        let failed = |source| ServeError::Listen { field: "dns.listen", addr, source };
        sockets.udp.push(UdpSocket::bind(addr).await.map_err(failed)?);
        sockets.tcp.push(TcpListener::bind(addr).await.map_err(failed)?);
    }
    Ok(sockets)
}

/// Serves, and follows the registry; never returns.
pub(super) async fn keep(shared: Arc<Shared>, sockets: Sockets) {
    let Some(dns) = &shared.dns else { return };
    let (state, counters) = (dns.state.subscribe(), dns.counters.clone());
    let (mut changes, mut ticks) = (shared.changes.subscribe(), interval(LOOK));
    // Queries wait in the sockets until the registry was read: an answer without it would say that
    // regions do not exist. The sender is in `shared`.
    let _ = changes.wait_for(|count| *count > 0).await;
    let mut doubts = Vec::new();
    dns.update(fleet(shared.observed().view()), &mut doubts);
    let follow = async {
        loop {
            let fleet = fleet(shared.observed().view());
            dns.update(fleet, &mut doubts);
            tokio::select! {
                _ = changes.changed() => {}
                _ = ticks.tick() => dns.look(false),
            }
        }
    };
    tokio::select! {
        () = serve(sockets, state, counters, Limits::default(), std::future::pending()) => {}
        () = follow => {}
    }
}

/// The regions with their living gateways, as the registry shows them.
fn fleet(view: &View) -> Fleet {
    let mut regions: BTreeMap<String, Region> = BTreeMap::new();
    for (name, kept) in &view.regions {
        let open = kept.record.wanted == Wanted::Up;
        regions.insert(name.clone(), Region { open, ..Region::default() });
    }
    for (name, kept) in &view.gateways {
        let gateway = &kept.record;
        let region = regions.entry(gateway.region.clone()).or_default();
        if !gateway.leaving {
            region.gateways.insert(name.clone(), public_addresses(gateway));
        }
    }
    let records = view.regions.iter().map(|(name, kept)| (name, &kept.record));
    let gateways = view.gateways.values().map(|kept| &kept.record);
    for ((from, to), rtt) in distances(records, gateways) {
        if let Some(region) = regions.get_mut(&from) {
            region.rtt_ms.insert(to, rtt.as_secs_f64() * 1e3);
        }
    }
    Fleet { regions }
}
