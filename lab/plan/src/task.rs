//! The task: a model on a topology, the lengths of its requests, and the objectives.

use crate::model::Subject;
use crate::problem::Problems;
use crate::topology::Topology;

/// Lengths in tokens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lengths {
    /// Mean.
    pub mean: f64,
    /// Coefficient of variation.
    pub cv: f64,
}

impl Lengths {
    /// All of one length.
    #[must_use]
    pub const fn equal(tokens: f64) -> Lengths {
        Lengths { mean: tokens, cv: 0.0 }
    }

    /// The standard deviation of the lognormal distribution's logarithm.
    pub(crate) fn sigma(&self) -> f64 {
        libm::sqrt(libm::log(1.0 + self.cv * self.cv))
    }
}

/// The objectives, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Slo {
    /// Time to the first token.
    pub ttft: f64,
    /// Time of each further token.
    pub tpot: f64,
    /// Share of requests that must meet both.
    pub attainment: f64,
}

/// The formulas for the time that traffic takes on links.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Network {
    /// Ours: switches cut through, links are shared, and hops have latencies.
    #[default]
    Corrected,
    /// HeroServe's as printed, for reproduction only: hops store and forward, the ring counts twice,
    /// links are never shared (`printed.rs`). Sizes are bytes, and every layer synchronises.
    Printed,
}

/// A planning task.
#[derive(Clone, Debug)]
pub struct Task<'a> {
    /// The topology.
    pub topology: &'a Topology,
    /// The model.
    pub subject: &'a Subject,
    /// Prompts.
    pub prompt: Lengths,
    /// Replies.
    pub output: Lengths,
    /// Objectives.
    pub slo: Slo,
    /// The rate to be served, requests a second; `None` for the maximum.
    pub rate: Option<f64>,
    /// The formulas of the network.
    pub network: Network,
}

impl<'a> Task<'a> {
    /// The task of serving as much as possible with such prompts and replies.
    #[must_use]
    pub const fn new(
        topology: &'a Topology,
        subject: &'a Subject,
        (prompt, output): (Lengths, Lengths),
        slo: Slo,
    ) -> Task<'a> {
        Task { topology, subject, prompt, output, slo, rate: None, network: Network::Corrected }
    }

    /// Checks the task itself, without topology and model.
    ///
    /// # Errors
    ///
    /// All problems at once.
    pub fn check(&self) -> Result<(), Problems> {
        let mut found = Problems(Vec::new());
        let context = f64::from(self.subject.shape.context);
        for (name, lengths) in [("prompt", self.prompt), ("output", self.output)] {
            let remedy = format!("use 1 to the model's context of {context}");
            let fits = lengths.mean >= 1.0 && lengths.mean <= context;
            found.unless(fits, name, lengths.mean, remedy);
            let fits = (0.0..=10.0).contains(&lengths.cv);
            found.unless(fits, format!("{name} cv"), lengths.cv, "use 0 to 10");
        }
        let both = self.prompt.mean + self.output.mean;
        let remedy = format!("together they must fit the model's context of {context}");
        found.unless(both <= context, "prompt and output", both, remedy);
        for (name, value) in [("ttft", self.slo.ttft), ("tpot", self.slo.tpot)] {
            let fits = value > 0.0 && value <= 1e4;
            found.unless(fits, name, value, "use a time above 0 up to 10000s, as in 2.5s");
        }
        let share = self.slo.attainment;
        found.unless((0.5..=0.999).contains(&share), "attainment", share, "use 0.5 to 0.999");
        let rate = self.rate.is_none_or(|rate| rate > 0.0 && rate <= 1e9);
        found.unless(
            rate,
            "rate",
            self.rate.unwrap_or(0.0),
            "use requests a second above 0, up to 1000000000",
        );
        found.or(())
    }
}
