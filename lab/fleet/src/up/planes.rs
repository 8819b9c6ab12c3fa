//! The control planes of several regions: one on a file, or three on an etcd of three members.

use std::net::SocketAddr;

use super::acts::{again, end, signalled, unknown};
use super::order::{ALL, Act};
use super::{Options, SETTLE, names};
use crate::etcd::Etcd;
use crate::{Certificates, Control, ControlSpec, Fleet, Operator, Process, Result, free_port};

/// How many control planes share an etcd, and how many members that has.
const SEVERAL: usize = 3;

/// The control planes of a run, and what they share.
pub(super) struct Planes {
    // Dropped in this order.
    pub(super) all: Vec<Plane>,
    pub(super) etcd: Option<Etcd>,
    pub(super) certificates: Certificates,
}

/// A control plane, dead or alive.
pub(super) struct Plane {
    /// Settings to restart it at the address that others know.
    spec: ControlSpec,
    /// URL of its admin port.
    pub(super) admin: String,
    /// Where it is the name server of the fleet's zone, if it is.
    pub(super) dns: Option<SocketAddr>,
    /// None while it is dead.
    pub(super) control: Option<Control>,
}

/// The names of a run's control planes.
fn called(options: &Options) -> Vec<String> {
    match options.etcd {
        false => vec!["control".to_owned()],
        true => (1..=SEVERAL).map(|nth| format!("control-{nth}")).collect(),
    }
}

impl Planes {
    /// Starts the control planes of a fleet with these certificates.
    pub(super) async fn start(
        fleet: &Fleet,
        options: &Options,
        certificates: Certificates,
    ) -> Result<Planes> {
        let names = called(options);
        fleet.control_certificates(&certificates, names.iter().map(String::as_str)).await?;
        let etcd = if options.etcd { Some(fleet.etcd(SEVERAL).await?) } else { None };
        let endpoints = etcd.as_ref().map(Etcd::endpoints).unwrap_or_default();
        let mut all = Vec::new();
        for (at, name) in names.into_iter().enumerate() {
            let dns = options.etcd.then(free_port).transpose()?;
            let dns = dns.map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
            let zone = |at| names::section(at, &options.regions);
            let mut spec = ControlSpec {
                name,
                admin: "127.0.0.1:0".into(),
                etcd: from(&endpoints, at),
                further: dns.map(zone).unwrap_or_default(),
                certificates: Some(certificates.clone()),
            };
            let control = fleet.control(&spec).await?;
            spec.admin = control.address();
            all.push(Plane { spec, admin: control.admin.clone(), dns, control: Some(control) });
        }
        Ok(Planes { all, etcd, certificates })
    }

    /// The addresses of all, beginning with the `at`th.
    pub(super) fn urls(&self, at: usize) -> Vec<String> {
        let urls: Vec<String> = self.all.iter().map(|plane| plane.admin.clone()).collect();
        from(&urls, at)
    }

    /// The name servers of the fleet's zone, beginning with the `at`th.
    pub(super) fn name_servers(&self, at: usize) -> Vec<SocketAddr> {
        let servers: Vec<SocketAddr> = self.all.iter().filter_map(|plane| plane.dns).collect();
        from(&servers, at)
    }

    /// A control plane that is alive.
    pub(super) fn living(&self) -> Option<&Control> {
        self.all.iter().find_map(|plane| plane.control.as_ref())
    }

    /// Someone who may change everything.
    pub(super) fn operator(&self) -> Result<Operator> {
        Operator::new(self.certificates.operator())
    }

    /// All processes, in the order in which they end.
    pub(super) fn processes(&mut self) -> impl Iterator<Item = &mut Process> {
        let planes = self.all.iter_mut().filter_map(|plane| plane.control.as_mut());
        planes.map(|control| &mut control.process).chain(members(self.etcd.as_mut()))
    }

    /// Performs an act on a control plane.
    pub(super) async fn act(&mut self, fleet: &Fleet, name: &str, act: Act) -> Result<()> {
        let Some(at) = self.all.iter().position(|plane| plane.spec.name == name) else {
            return Err(unknown(name, self.all.iter().map(|plane| plane.spec.name.as_str())));
        };
        let plane = &mut self.all[at];
        if signalled(plane.control.as_mut().map(|control| &mut control.process), act) {
            return Ok(());
        }
        if let Some(mut control) = plane.control.take() {
            match act {
                Act::Kill => return control.process.kill().await,
                _ => end(&mut control.process).await?,
            }
        }
        if act != Act::Kill && plane.control.is_none() {
            plane.control = Some(again(|| fleet.control(&plane.spec)).await?);
        }
        Ok(())
    }

    /// Performs an act on a member of etcd, or on all of them.
    pub(super) async fn etcd_act(&mut self, fleet: &Fleet, name: &str, act: Act) -> Result<()> {
        let Some(etcd) = &mut self.etcd else {
            return Err(unknown(name, ["a fleet with several control planes"]));
        };
        let chosen = |at: &usize| name == ALL || etcd.members[*at].name == name;
        let chosen: Vec<usize> = (0..etcd.members.len()).filter(chosen).collect();
        if chosen.is_empty() {
            return Err(unknown(name, etcd.members.iter().map(|member| member.name.as_str())));
        }
        let mut dead = Vec::new();
        for at in chosen {
            let member = &mut etcd.members[at];
            if signalled(member.process.as_mut(), act) {
                continue;
            }
            if let Some(mut process) = member.process.take() {
                process.kill().await?;
            }
            if act != Act::Kill {
                dead.push(at);
            }
        }
        etcd.revive(fleet, &dead).await
    }

    /// Ends the control planes, and then etcd.
    pub(super) async fn drain(&mut self) -> Vec<Result<()>> {
        let mut ends = Vec::new();
        for control in self.all.iter_mut().filter_map(|plane| plane.control.as_mut()) {
            ends.push(end(&mut control.process).await);
        }
        for process in members(self.etcd.as_mut()) {
            // It ends by the signal itself, which is not a status of success.
            process.terminate();
            process.go_on();
            ends.push(process.wait(SETTLE).await.map(drop));
        }
        ends
    }
}

fn members(etcd: Option<&mut Etcd>) -> impl Iterator<Item = &mut Process> {
    let members = etcd.into_iter().flat_map(|etcd| &mut etcd.members);
    members.filter_map(|member| member.process.as_mut())
}

/// The same, beginning with the `at`th.
fn from<T: Clone>(all: &[T], at: usize) -> Vec<T> {
    let all = all.iter().cycle().skip(at).take(all.len());
    all.cloned().collect()
}
