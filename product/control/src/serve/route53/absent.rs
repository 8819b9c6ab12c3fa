//! A build without AWS's SDK.

use std::sync::Arc;

use meridian_config as config;
use meridian_protocol::registry::Hosted;

use super::super::metrics::HostedFigures;
use super::super::{ServeError, Shared};

/// Never there: a configuration with the section is refused.
pub(in super::super) enum Route53 {}

impl Route53 {
    pub(in super::super) fn load(_: &config::Route53) -> Result<Route53, ServeError> {
        Err(ServeError::NoRoute53)
    }

    pub(in super::super) fn page(&self, _: bool) -> Hosted {
        match *self {}
    }

    pub(in super::super) fn figures(&self, _: bool) -> HostedFigures {
        match *self {}
    }
}

/// Nothing is to be done.
pub(in super::super) async fn keep(_: Arc<Shared>) {}
