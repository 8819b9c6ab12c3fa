//! The control plane of a fleet: `meridian control` with a store of its own.

use std::collections::BTreeMap;

use crate::{Client, Error, Fleet, Process, Result};

/// A running control plane.
#[derive(Debug)]
pub struct Control {
    /// The process.
    pub process: Process,
    /// Where its admin port is: `http://127.0.0.1:PORT`.
    pub admin: String,
    client: Client,
}

impl Fleet {
    /// Starts the control plane. `admin` is its address, with port 0 for any. One that was killed
    /// finds its registry again.
    ///
    /// # Errors
    /// When it cannot be started.
    pub async fn control(&self, admin: &str) -> Result<Control> {
        let (file, store) = (self.dir().join("control.yaml"), self.dir().join("control.redb"));
        let yaml = format!("version: 1\nstore: {}\nadmin: {admin}\n", store.display());
        std::fs::write(&file, yaml).map_err(Error::file("writing", &file))?;
        let args = ["control".as_ref(), "-c".as_ref(), file.as_os_str()];
        let process = self.meridian("control", args, &["admin on "]).await?;
        let admin = process.said(0).to_owned();
        Ok(Control { process, admin, client: Client::new() })
    }
}

impl Control {
    /// The address of its admin port.
    #[must_use]
    pub fn address(&self) -> String {
        self.admin.trim_start_matches("http://").to_owned()
    }

    /// Adds a replica to a region. Where gateways of other regions reach it, they are told by region.
    ///
    /// # Errors
    /// When the control plane does not answer, or refuses.
    pub async fn add(
        &self,
        name: &str,
        region: &str,
        url: &str,
        from: &BTreeMap<String, String>,
    ) -> Result<()> {
        let body = serde_json::json!({ "region": region, "spec": { "url": url, "from": from } });
        let url = format!("{}/admin/replicas/{name}", self.admin);
        let answer = self.client.put(&url, body.to_string()).await?;
        if (200..300).contains(&answer.status) {
            return Ok(());
        }
        let why = answer.value()["error"]["message"].as_str().unwrap_or("no reason").to_owned();
        Err(Error::Answer { url, what: format!("status {}: {why}", answer.status) })
    }
}
