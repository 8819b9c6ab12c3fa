//! One region of a run: its replicas, its gateway, its clients.
//!
//! Each further gateway of a region is an entry of its own, without replicas and clients.

use std::path::PathBuf;

use meridian_protocol::admin::{self, Role, Status};
use serde_json::json;

use super::order::Act;
use super::paths::Paths;
use super::start::{Maker, load_args};
use super::{Options, tenants};
use crate::load::Load;
use crate::page::Seen;
use crate::{Client, Error, Fleet, Gateway, GatewaySpec, LoadSpec, Process, Result};

/// The documented address for clients, if it is free.
pub(super) const USUAL: &str = "127.0.0.1:8080";

/// A region, or a further gateway of one.
pub(super) struct Region {
    // Dropped in this order.
    pub(super) load: Option<Load>,
    /// None while it is dead.
    pub(super) gateway: Option<Gateway>,
    pub(super) replicas: Vec<Replica>,
    /// The region's name; a further gateway has a number, too.
    pub(super) name: String,
    /// The region.
    pub(super) of: String,
    /// The region's number.
    pub(super) number: usize,
    /// Settings to restart the gateway at the addresses that others know; none if another region's
    /// gateway serves this one too.
    pub(super) spec: Option<GatewaySpec>,
    /// Times the gateway was killed or asked to end.
    pub(super) restarts: u32,
    /// Times its file was changed.
    pub(super) edits: u32,
}

/// A replica, dead or alive.
pub(super) struct Replica {
    pub(super) name: String,
    pub(super) role: Role,
    /// Its URL, which a restart keeps.
    pub(super) url: String,
    /// None while it is dead.
    pub(super) process: Option<Process>,
    /// Times it was killed or asked to end.
    pub(super) restarts: u32,
    /// It was asked to, until it is revived or another process.
    pub(super) misbehaves: bool,
}

impl Replica {
    /// Asks a model engine to misbehave, or to stop that.
    pub(super) async fn ask_for(&self, act: Option<Act>) -> Result<()> {
        let url = format!("{}/faults", self.url);
        let answer = Client::new().post(&url, json!({ "fault": act }).to_string()).await?;
        if answer.status == 200 {
            return Ok(());
        }
        let what =
            format!("status {}: only model engines can be asked to misbehave", answer.status);
        Err(Error::Answer { url, what })
    }

    /// Whether it runs and is not suspended.
    pub(super) fn answers(&self) -> bool {
        self.process.as_ref().is_some_and(|process| !process.is_stopped())
    }
}

impl Region {
    /// Starts a region's replicas.
    pub(super) async fn without_gateway(
        fleet: &Fleet,
        maker: &Maker,
        options: &Options,
        paths: Option<&Paths>,
        region: usize,
    ) -> Result<Region> {
        let mut replicas = Vec::new();
        for (n, role) in options.roles(region).into_iter().enumerate() {
            let name = options.replica_name(region, n);
            let process = maker.replica(fleet, options, paths, (&name, role), 0).await?;
            let url = process.said(0).to_owned();
            let process = Some(process);
            replicas.push(Replica { name, role, url, process, restarts: 0, misbehaves: false });
        }
        Ok(Region { replicas, ..Region::empty(options, region, 1) })
    }

    /// The further gateways of all regions, which are not started.
    pub(super) fn further_gateways(options: &Options) -> impl Iterator<Item = Region> {
        let regions = 0..options.regions.len();
        regions.flat_map(move |at| {
            (2..=options.gateways).map(move |nth| Region::empty(options, at, nth))
        })
    }

    fn empty(options: &Options, number: usize, nth: u32) -> Region {
        let of = options.regions[number].clone();
        let name = if nth == 1 { of.clone() } else { format!("{of}-{nth}") };
        Region {
            load: None,
            gateway: None,
            replicas: Vec::new(),
            name,
            of,
            number,
            spec: None,
            restarts: 0,
            edits: 0,
        }
    }

    /// Whether it is a further gateway of a region.
    pub(super) fn is_further(&self) -> bool {
        self.name != self.of
    }

    /// The gateway's name, also in its certificate.
    pub(super) fn gateway_name(region: &str) -> String {
        format!("{region}-gateway")
    }

    /// Starts the gateway for the first time; if the documented port is in use, at any other.
    pub(super) async fn first_gateway(&mut self, fleet: &Fleet) -> Result<()> {
        let gateway = match self.new_gateway(fleet).await {
            // Checking first would leave time for another process to take it.
            Err(Error::EndedEarly { log, .. }) if log.contains(USUAL) => {
                self.spec.iter_mut().for_each(|spec| spec.listen = "127.0.0.1:0".into());
                self.new_gateway(fleet).await?
            }
            first => first?,
        };
        self.settle_in(gateway);
        Ok(())
    }

    /// Starts a gateway with its settings, for the first time or again.
    pub(super) async fn new_gateway(&self, fleet: &Fleet) -> Result<Gateway> {
        let spec = self.spec.as_ref().expect("only regions with a gateway of their own ask");
        fleet.gateway(&Region::gateway_name(&self.name), spec).await
    }

    /// The gateway runs; keeps its addresses for restarts.
    pub(super) fn settle_in(&mut self, gateway: Gateway) {
        let spec = self.spec.as_mut().expect("only regions with a gateway of their own ask");
        let address = |url: &str| url.trim_start_matches("http://").to_owned();
        spec.listen = address(&gateway.url);
        spec.admin = address(&gateway.admin);
        if let (Some(peers), Some(at)) = (&mut spec.peers, gateway.peers) {
            peers.listen = at.to_string();
        }
        self.gateway = Some(gateway);
    }

    /// Starts the clients: their sessions are spread over the region's gateways, which have the first of
    /// these addresses. If one does not answer, they use the others.
    pub(super) async fn start_load(
        &mut self,
        fleet: &Fleet,
        options: &Options,
        addresses: &[String],
    ) -> Result<()> {
        let mut args = load_args(options, self.number);
        let (first, elsewhere) = addresses.split_first().expect("some gateway serves the region");
        if tenants::are_there(options) {
            args.extend(tenants::load_args());
        }
        let siblings = &elsewhere[..elsewhere.len().min(options.gateways as usize - 1)];
        for url in siblings {
            args.extend(["--also".to_owned(), url.clone()]);
        }
        for url in Some(first).filter(|_| !siblings.is_empty()).into_iter().chain(elsewhere) {
            args.extend(["--elsewhere".to_owned(), url.clone()]);
        }
        let name = match options.regions.len() {
            1 => "load".to_owned(),
            _ => format!("{}-load", self.name),
        };
        if options.follow {
            let file = self.finished_requests(fleet).display().to_string();
            args.extend(["--records".to_owned(), file]);
        }
        let spec = LoadSpec { url: first.clone(), duration: super::WITHOUT_END, args };
        self.load = Some(fleet.load(&name, &spec).await?);
        Ok(())
    }

    /// The file with a line for each finished request, in runs that follow them.
    pub(super) fn finished_requests(&self, fleet: &Fleet) -> PathBuf {
        fleet.dir().join(format!("{}-finished.jsonl", self.name))
    }

    /// The gateway; none while it is dead or suspended.
    pub(super) fn answering(&self) -> Option<&Gateway> {
        self.gateway.as_ref().filter(|gateway| !gateway.process.is_stopped())
    }

    /// Changes the gateway's file without effect on its clients: adds or removes another tenant and
    /// a rule for it.
    pub(super) fn edit(&mut self, fleet: &Fleet) -> Result<()> {
        let Some(spec) = &mut self.spec else { return Ok(()) };
        self.edits += 1;
        spec.further = match spec.further.contains(tenants::HEAD) {
            true => tenants::config(self.edits),
            false => format!("# edited {} times\n", self.edits),
        };
        fleet.gateway_file(&Region::gateway_name(&self.name), spec).map(drop)
    }

    /// The gateway's status; none while it is dead or suspended.
    pub(super) async fn status(&self, client: &Client) -> Result<Option<Status>> {
        match self.answering() {
            Some(gateway) => {
                client.json(&format!("{}/admin/status", gateway.admin)).await.map(Some)
            }
            None => Ok(None),
        }
    }

    /// The current state. A gateway that does not answer counts as dead this time.
    pub(super) async fn look(&self, client: &Client) -> Seen {
        Seen {
            name: self.name.clone(),
            status: self.status(client).await.ok().flatten(),
            live: self.load.as_ref().and_then(Load::live),
            dead: self.dead(),
        }
    }

    /// The names of dead or suspended processes.
    fn dead(&self) -> Vec<String> {
        let replicas = self.replicas.iter().filter(|r| !r.answers()).map(|r| r.name.clone());
        let gateway = (self.answering().is_none() && self.spec.is_some())
            .then(|| Region::gateway_name(&self.name));
        replicas.chain(gateway).collect()
    }

    /// Checks that every process that should be alive is.
    pub(super) fn none_died(&mut self) -> std::result::Result<(), String> {
        let load = self.load.as_mut().map(|load| &mut load.process);
        let gateway = self.gateway.as_mut().map(|gateway| &mut gateway.process);
        let replicas = self.replicas.iter_mut().filter_map(|r| r.process.as_mut());
        for process in replicas.chain(gateway).chain(load) {
            still_runs(process)?;
        }
        Ok(())
    }

    /// Whether the gateway has found exactly its replicas, and its peers. `registered` are the region's
    /// replicas in the registry.
    pub(super) fn is_up(&self, status: &Status, registered: &[Replica]) -> bool {
        let Some(spec) = &self.spec else { return true };
        let own: Vec<_> = match spec.control.is_empty() {
            true => spec.replicas.iter().collect(),
            false => registered.iter().map(|replica| &replica.url).collect(),
        };
        let ours = |replica: &&admin::Replica| replica.state == "up" && own.contains(&&replica.url);
        let peers = spec.peers.as_ref().map_or(0, |peers| peers.gateways.len());
        status.replicas.len() == own.len()
            && status.replicas.iter().filter(ours).count() == own.len()
            && status.peers.iter().filter(|p| p.state == "up").count() == peers
    }

    /// The error for a timeout, with its reason.
    pub(super) fn too_slow(&self, limit: std::time::Duration) -> Error {
        Error::TooSlow {
            name: Region::gateway_name(&self.name),
            what: "find all replicas and peers up".into(),
            limit,
            log: self.gateway.as_ref().map(|g| g.process.log_tail()).unwrap_or_default(),
        }
    }
}

/// An error if the process has ended on its own.
pub(super) fn still_runs(process: &mut Process) -> std::result::Result<(), String> {
    match process.ended().filter(|_| !process.is_ending()) {
        None => Ok(()),
        Some(status) => {
            let (name, log) = (process.name(), process.log_tail());
            Err(format!("{name} exited with {status} during the run\n{log}"))
        }
    }
}
