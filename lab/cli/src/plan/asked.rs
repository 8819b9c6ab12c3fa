//! The options of a planning task.

use std::path::PathBuf;

use anyhow::Context;
use meridian_plan::units::Span;
use meridian_plan::{Lengths, Slo, Subject, Task, Topology, TopologySpec};

use super::lengths::Measured;

#[derive(Debug, clap::Args)]
pub(super) struct About {
    /// Topology: a file, or the name of a built-in one, as heroserve-testbed
    #[arg(short, long, value_name = "FILE", required = true)]
    topology: Option<PathBuf>,
    /// Model: a short name, or its config.json
    #[arg(short, long, value_name = "NAME|FILE", required = true)]
    model: Option<String>,
    /// Objective for the TTFT
    #[arg(long, value_parser = span, default_value = "2.5s", allow_hyphen_values = true)]
    ttft: Span,
    /// Objective for the TPOT
    #[arg(long, value_parser = span, default_value = "150ms", allow_hyphen_values = true)]
    tpot: Span,
    /// Share of requests that should meet both
    #[arg(long, default_value_t = 0.9, allow_negative_numbers = true)]
    attainment: f64,
    /// Mean length of prompts, in tokens
    #[arg(long, default_value_t = 1000.0, allow_negative_numbers = true)]
    prompt: f64,
    /// Their coefficient of variation
    #[arg(long, default_value_t = 1.0, allow_negative_numbers = true)]
    prompt_cv: f64,
    /// Mean length of replies
    #[arg(long, default_value_t = 250.0, allow_negative_numbers = true)]
    output: f64,
    /// Their coefficient of variation
    #[arg(long, default_value_t = 1.0, allow_negative_numbers = true)]
    output_cv: f64,
    /// Take the lengths of the requests in this trace, as the gateway's journal
    #[arg(
        long,
        value_name = "TRACE",
        conflicts_with_all = ["prompt", "prompt_cv", "output", "output_cv"]
    )]
    lengths_from: Option<PathBuf>,
}

fn span(text: &str) -> Result<Span, String> {
    Span::parse(text)
}

impl About {
    pub(super) fn spec(&self) -> anyhow::Result<TopologySpec> {
        super::spec(self.topology.as_deref().context("--topology: is missing; give a file")?)
    }

    pub(super) fn subject(&self) -> anyhow::Result<Subject> {
        super::subject(self.model.as_deref().context("--model: is missing; give a name")?)
    }

    /// The requests of `--lengths-from`.
    pub(super) fn measured(&self, subject: &Subject) -> anyhow::Result<Option<Measured>> {
        let read =
            |path: &PathBuf| Measured::read(path, subject, meridian_plan::Averages::of_all());
        self.lengths_from.as_ref().map(read).transpose()
    }

    /// The task, without a rate.
    pub(super) fn task<'a>(
        &self,
        topology: &'a Topology,
        subject: &'a Subject,
        measured: Option<&Measured>,
    ) -> anyhow::Result<Task<'a>> {
        let prompt = Lengths { mean: self.prompt, cv: self.prompt_cv };
        let output = Lengths { mean: self.output, cv: self.output_cv };
        let lengths = match measured {
            Some(measured) => super::all(measured.averages.lengths(), "--lengths-from")?,
            None => (prompt, output),
        };
        let slo = Slo { ttft: self.ttft.0, tpot: self.tpot.0, attainment: self.attainment };
        Ok(Task::new(topology, subject, lengths, slo))
    }
}
