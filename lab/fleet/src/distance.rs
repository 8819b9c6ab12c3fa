//! The distance between the regions of a fleet: `meridian wan` as a process, and its routes.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use meridian_wan::config::{LinkSpec, RouteSpec, SetLink, SetRoute, State, VERSION, Wan as Config};

use crate::{Client, Error, Fleet, Process, Result};

/// A running relay.
#[derive(Debug)]
pub struct Distance {
    /// The process.
    pub process: Process,
    /// URL of its admin port.
    pub admin: String,
    /// The address of each route.
    listens: BTreeMap<String, SocketAddr>,
    client: Client,
}

impl Fleet {
    /// Starts a relay with these routes, given by name, from and to; they have no target yet.
    /// `links` are the directions without a known distance.
    ///
    /// # Errors
    /// If it can't be started or does not answer.
    pub async fn distance(
        &self,
        routes: &[(String, String, String)],
        links: Vec<LinkSpec>,
    ) -> Result<Distance> {
        let route = |(name, from, to): &(String, String, String)| RouteSpec {
            name: Some(name.clone()),
            from: from.clone(),
            to: to.clone(),
            listen: any_port(),
            target: None,
        };
        let config = Config {
            version: VERSION,
            admin: any_port(),
            links,
            routes: routes.iter().map(route).collect(),
            window: Default::default(),
            buffer: meridian_protocol::units::Size::mib(4),
            connections: 4096,
            seed: 0,
        };
        let file = self.dir().join("wan.yaml");
        let yaml = config.print().map_err(|error| Error::Setting {
            field: "the relay's configuration",
            value: file.display().to_string(),
            remedy: error.to_string(),
        })?;
        std::fs::write(&file, yaml).map_err(Error::file("writing", &file))?;
        let args = ["wan".as_ref(), "-c".as_ref(), file.as_os_str()];
        let process = self.meridian("wan", args, &["admin on "]).await?;
        let (admin, client) = (process.said(0).to_owned(), Client::new());
        let state: State = client.json(&format!("{admin}/admin/wan")).await?;
        let listens = state.routes.into_iter().map(|route| (route.name, route.listen)).collect();
        Ok(Distance { process, admin, listens, client })
    }
}

impl Distance {
    /// The address of a route.
    ///
    /// # Panics
    /// If the relay has no such route.
    #[must_use]
    pub fn listens(&self, route: &str) -> SocketAddr {
        self.listens[route]
    }

    /// The address of a route, if it exists.
    #[must_use]
    pub fn door(&self, route: &str) -> Option<SocketAddr> {
        self.listens.get(route).copied()
    }

    /// Sets the target of a route.
    ///
    /// # Errors
    /// If the relay does not answer, or refuses.
    pub async fn leads_to(&self, route: &str, target: SocketAddr) -> Result<()> {
        let set = serde_json::to_vec(&SetRoute { target }).expect("an address is JSON");
        self.set(&format!("routes/{route}"), set).await
    }

    /// Changes one direction between two regions.
    ///
    /// # Errors
    /// If the relay does not answer, or refuses.
    pub async fn set_way(&self, from: &str, to: &str, set: SetLink) -> Result<()> {
        let set = serde_json::to_vec(&set).expect("a link's settings are JSON");
        self.set(&format!("links/{from}/{to}"), set).await
    }

    /// The state of all links.
    ///
    /// # Errors
    /// If the relay does not answer.
    pub async fn state(&self) -> Result<State> {
        self.client.json(&format!("{}/admin/wan", self.admin)).await
    }

    async fn set(&self, what: &str, body: Vec<u8>) -> Result<()> {
        let url = format!("{}/admin/{what}", self.admin);
        let answer = self.client.post(&url, body).await?;
        match answer.status {
            200 => Ok(()),
            status => Err(Error::Answer { url, what: format!("status {status}") }),
        }
    }
}

fn any_port() -> SocketAddr {
    (std::net::Ipv4Addr::LOCALHOST, 0).into()
}
