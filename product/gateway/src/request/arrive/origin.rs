//! The origin of a request: a client, or a peer that forwarded it. For a forwarded request, the
//! peer's marks give the tenant, the priority and the deadline, and the client's own headers are
//! ignored.

use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue};
use meridian_protocol::peer::{Identity, Marks};
use meridian_routing::Priority;

use crate::inputs::in_force::InForce;
use crate::inputs::rate::Rates;
use crate::inputs::tenants::Identified;
use crate::inputs::{priority, tenants};
use crate::peers::report::Report;
use crate::refusal::Refusal;

/// The sender of a request.
pub(crate) enum Origin {
    /// A client, by a hash of its address.
    Client(u64),
    /// A peer that forwarded a client's request.
    Peer { marks: Box<Marks>, report: Arc<Report>, from: Identity },
}

impl Origin {
    pub(crate) fn is_client(&self) -> bool {
        matches!(self, Origin::Client(_))
    }

    /// Whether an engine died under it in the region that forwarded it.
    pub(crate) fn died(&self) -> bool {
        matches!(self, Origin::Peer { marks, .. } if marks.died)
    }

    /// Number of forwards so far.
    pub(crate) fn hops(&self) -> u8 {
        match self {
            Origin::Client(_) => 0,
            Origin::Peer { marks, .. } => marks.hops,
        }
    }
}

/// The tenant of a request.
pub(crate) struct Caller {
    pub(crate) tenant: Option<HeaderValue>,
    /// Whether the configuration names it.
    pub(crate) is_known: bool,
    /// The tenant's rate limits. For a forwarded request the first gateway has applied them.
    pub(crate) rates: Option<Arc<Rates>>,
    pub(crate) priority: Priority,
}

/// Determines the tenant: by key or token if tenants or issuers are configured, by a peer's mark,
/// else by the client's own header. In the first case the identifying headers are removed.
pub(crate) fn identify(
    tenant_header: Option<&HeaderName>,
    in_force: &InForce,
    headers: &mut HeaderMap,
    origin: &Origin,
) -> Result<Caller, Refusal> {
    let named = in_force.tenants.are_named();
    let caller = match origin {
        Origin::Peer { marks, .. } => {
            let tenant = marks.tenant.clone();
            let is_known = tenant.is_some() && in_force.tenants.labels(tenant.as_ref()).is_some();
            Caller { tenant, is_known, rates: None, priority: marks.priority }
        }
        Origin::Client(_) if named => {
            let tenant = in_force.tenants.identify(headers)?;
            let priority = priority::lowered(headers, tenant.priority)?;
            let Identified { name, is_known, rates, .. } = tenant;
            Caller { tenant: Some(name), is_known, rates, priority }
        }
        Origin::Client(_) => {
            let tenant = tenant_header.and_then(|name| headers.get(name)).cloned();
            let priority = priority::lowered(headers, Priority::default())?;
            Caller { tenant, is_known: false, rates: None, priority }
        }
    };
    if named {
        tenants::strip(headers, tenant_header);
    }
    Ok(caller)
}
