//! A replica as it is described: in a gateway's file, in lists of replicas, at the admin port and in the
//! registry.

use std::collections::BTreeMap;

use meridian_base::residency::Labels;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{EngineName, RoleName, TransferName};

/// `POST /admin/replicas`; the configuration uses the same form.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AddReplica {
    /// Base address, `http://host:port` or `https://host:port`. Host and port identify the replica.
    #[schemars(regex(pattern = r"^https?://[^/?#@\s]+/?$"))]
    pub url: String,
    /// Its name in headers, metrics, logs and at the admin port, unlike that of any other replica of the
    /// gateway; `r0`, `r1` and so on if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^[A-Za-z0-9._-]{1,63}$"))]
    pub name: Option<String>,
    /// Addresses by region, for regions whose gateways don't reach it at `url`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub from: BTreeMap<String, String>,
    /// Name of the credentials for it, in the gateway's section `credentials`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials: Option<String>,
    /// The engine behind it.
    #[serde(default)]
    pub engine: EngineName,
    /// The models it serves; read from `/v1/models` when empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub models: Vec<String>,
    /// KV cache size in tokens, if the engine does not report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kv_tokens: Option<u64>,
    /// Most requests it runs at once, if the engine does not report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slots: Option<u32>,
    /// Relative capacity, 1 by default.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub weight: u32,
    /// Its part of a request: `both`, `prefill` or `decode`.
    #[serde(default, skip_serializing_if = "RoleName::is_both")]
    pub role: RoleName,
    /// How it hands over KV, if that is not its engine's usual way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transfer: Option<TransferName>,
    /// For prefill: `host:port` of its bootstrap server, if that is not its own host and the
    /// protocol's usual port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bootstrap: Option<String>,
    /// Its revision, if prefill and decode replicas of different revisions form no pairs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// Its region, if that is not the gateway's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    /// Labels that residency rules refer to. They add to its region's labels and override them.
    #[serde(default, skip_serializing_if = "Labels::is_empty")]
    pub labels: Labels,
}

impl AddReplica {
    /// A replica of which only the address is known.
    #[must_use]
    pub fn at(url: impl Into<String>) -> AddReplica {
        AddReplica {
            url: url.into(),
            name: None,
            from: BTreeMap::new(),
            credentials: None,
            engine: EngineName::Auto,
            models: Vec::new(),
            kv_tokens: None,
            slots: None,
            weight: 1,
            role: RoleName::default(),
            transfer: None,
            bootstrap: None,
            revision: None,
            region: None,
            labels: Labels::new(),
        }
    }

    /// The address at which the gateways of a region reach it.
    #[must_use]
    pub fn url_from(&self, region: &str) -> &str {
        self.from.get(region).unwrap_or(&self.url)
    }
}

fn one() -> u32 {
    1
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde's signature
fn is_one(n: &u32) -> bool {
    *n == 1
}
