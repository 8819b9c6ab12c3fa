//! The ways of KV to and from other engines, over links that a topology describes.
//!
//! Without routes each engine has one card, and all its transfers share that. With them, a transfer puts
//! bytes on each link of its route, takes at least the time of the route without other traffic, and
//! shares each link with the transfers of this engine that meet it there. Both ends emulate all links of
//! a transfer; what other pairs of engines put on a link at the same time is not seen.

use crate::Error;
use std::collections::BTreeMap;

/// The routes of an engine, by the name of the other one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Routes {
    /// The rate of each link, in bytes a second of model time; above 0.
    pub rates: Vec<f64>,
    /// To the engines that fetch KV here.
    pub to: BTreeMap<String, Route>,
    /// From the engines at which this one fetches KV.
    pub from: BTreeMap<String, Route>,
}

/// A route. Its bytes are those of the KV itself, each counted once.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Route {
    /// Seconds of model time, whatever the size.
    pub latency: f64,
    /// Seconds of model time a byte, without other traffic.
    pub per_byte: f64,
    /// The load of a byte on links, by their number in [`Routes::rates`].
    pub loads: Vec<(usize, f64)>,
}

impl Routes {
    /// # Errors
    /// If a number is not usable.
    pub(super) fn validate(&self) -> Result<(), Error> {
        let field =
            |value: String, remedy| Err(Error::Transfer { field: "KV route", value, remedy });
        if let Some(rate) = self.rates.iter().find(|rate| !(**rate > 0.0 && rate.is_finite())) {
            return field(format!("at {rate} bytes a second"), "give each link a rate above 0");
        }
        for (name, route) in self.to.iter().chain(&self.from) {
            let usable = |number: f64| number >= 0.0 && number.is_finite();
            let loads =
                route.loads.iter().all(|(at, load)| *at < self.rates.len() && usable(*load));
            if !(loads && usable(route.latency) && usable(route.per_byte)) {
                return field(name.clone(), "use times from 0 on, and links that have a rate");
            }
        }
        Ok(())
    }
}
