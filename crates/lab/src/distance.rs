//! Distance between the regions of a fleet: `meridian wan` as a process, and its doors.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use meridian_wire::wan::{RouteSpec, SetLink, SetRoute, State, VERSION, Wan as Config};

use crate::{Client, Error, Fleet, Process, Result};

/// A running relay.
#[derive(Debug)]
pub struct Distance {
    /// The process.
    pub process: Process,
    /// Where its admin port is.
    pub admin: String,
    doors: BTreeMap<String, SocketAddr>,
    client: Client,
}

/// A door from one region to a program in another one.
#[derive(Debug, Clone)]
pub struct Door {
    /// Its name, unique in the fleet.
    pub name: String,
    /// Where those are who knock.
    pub from: String,
    /// Where the program is.
    pub to: String,
}

impl Fleet {
    /// Starts a relay with these doors; behind them is nobody yet.
    ///
    /// # Errors
    /// When it cannot be started or does not answer.
    pub async fn distance(&self, doors: &[Door]) -> Result<Distance> {
        let route = |door: &Door| RouteSpec {
            name: Some(door.name.clone()),
            from: door.from.clone(),
            to: door.to.clone(),
            listen: any_port(),
            target: None,
        };
        let config = Config {
            version: VERSION,
            admin: any_port(),
            links: Vec::new(),
            routes: doors.iter().map(route).collect(),
            window: Default::default(),
            buffer: meridian_wire::config::Size::mib(4),
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
        let doors = state.routes.into_iter().map(|route| (route.name, route.listen)).collect();
        Ok(Distance { process, admin, doors, client })
    }
}

impl Distance {
    /// Where to knock.
    ///
    /// # Panics
    /// When the relay was not started with such a door.
    #[must_use]
    pub fn door(&self, name: &str) -> SocketAddr {
        self.doors[name]
    }

    /// Puts a program behind a door.
    ///
    /// # Errors
    /// When the relay does not answer, or refuses.
    pub async fn leads_to(&self, door: &str, target: SocketAddr) -> Result<()> {
        let set = serde_json::to_vec(&SetRoute { target }).expect("an address is JSON");
        self.set(&format!("routes/{door}"), set).await
    }

    /// Changes one direction between two regions.
    ///
    /// # Errors
    /// When the relay does not answer, or refuses.
    pub async fn set_way(&self, from: &str, to: &str, set: SetLink) -> Result<()> {
        let set = serde_json::to_vec(&set).expect("a link's settings are JSON");
        self.set(&format!("links/{from}/{to}"), set).await
    }

    /// The state of all links.
    ///
    /// # Errors
    /// When the relay does not answer.
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
