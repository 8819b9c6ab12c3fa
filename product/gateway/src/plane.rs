//! The shared parts for answering requests, and the request path that each serving thread builds
//! from them. Only the code that builds a gateway and starts its threads knows them all; the files
//! below receive the parts that they use.

use std::sync::Arc;

use crate::admin::explain::Explain;
use crate::http::limits::Limits;
use crate::ids::Ids;
use crate::inputs::Inputs;
use crate::machine::driver::Driver;
use crate::metrics::Metrics;
use crate::patience::Patience;
use crate::peers::all::Peers;
use crate::record::Records;
use crate::replicas::fleet::Fleet;
use crate::replicas::upstream::Upstream;
use crate::request::answer::answers::Answers;
use crate::request::arrive::admit::Admission;
use crate::request::arrive::client::Clients;
use crate::request::arrive::entry::Requests;
use crate::request::send::attempts::Attempts;
use crate::request::send::destination::Destinations;
use crate::request::send::transport::Transport;

/// The parts that all threads use to answer requests.
pub(crate) struct DataPlane {
    pub(crate) inputs: Arc<Inputs>,
    pub(crate) limits: Limits,
    pub(crate) driver: Arc<Driver>,
    pub(crate) fleet: Arc<Fleet>,
    pub(crate) peers: Option<Arc<Peers>>,
    /// `timeouts.connect`.
    pub(crate) connect: Patience,
    /// Connections to replicas of other regions.
    pub(crate) far: Upstream,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) ids: Arc<Ids>,
    pub(crate) explain: Arc<Explain>,
    /// The access log, the journal, traces, and the newest requests.
    pub(crate) records: Arc<Records>,
}

impl DataPlane {
    /// The client port of one thread, with its own connections to replicas of this region.
    pub(crate) fn clients(&self, near: Upstream) -> Clients {
        Clients {
            requests: self.requests(near),
            draining: self.limits.draining.clone(),
            driver: self.driver.clone(),
            metrics: self.metrics.clone(),
            config: self.inputs.config.clone(),
        }
    }

    /// The request path of one thread.
    pub(crate) fn requests(&self, near: Upstream) -> Requests {
        Requests {
            admission: self.admission(),
            driver: self.driver.clone(),
            explain: self.explain.clone(),
            metrics: self.metrics.clone(),
            records: self.records.clone(),
            answers: Arc::new(Answers {
                attempts: self.attempts(near),
                inputs: self.inputs.clone(),
                fleet: self.fleet.clone(),
                peers: self.peers.clone(),
                metrics: self.metrics.clone(),
            }),
        }
    }

    fn admission(&self) -> Admission {
        Admission {
            inputs: self.inputs.clone(),
            limits: self.limits.clone(),
            driver: self.driver.clone(),
            fleet: self.fleet.clone(),
            peers: self.peers.clone(),
            ids: self.ids.clone(),
            metrics: self.metrics.clone(),
        }
    }

    fn attempts(&self, near: Upstream) -> Attempts {
        Attempts {
            destinations: Destinations {
                driver: self.driver.clone(),
                fleet: self.fleet.clone(),
                peers: self.peers.clone(),
                residency: self.inputs.residency.clone(),
            },
            transport: Transport {
                near,
                far: self.far.clone(),
                driver: self.driver.clone(),
                fleet: self.fleet.clone(),
                metrics: self.metrics.clone(),
                seed: self.ids.seed(),
            },
            metrics: self.metrics.clone(),
            ids: self.ids.clone(),
        }
    }
}
