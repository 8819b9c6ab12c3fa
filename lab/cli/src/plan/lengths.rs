//! Lengths and rates of recorded requests.

use std::path::Path;

use anyhow::Context;
use meridian_plan::{Averages, Subject, Task};
use meridian_tools::trace_file;
use meridian_workload::trace::{
    Outcome, ReadOptions, Shape, Stats, StatsOptions, TraceRequest, shape,
};

/// The requests of a trace.
pub(super) struct Measured {
    name: String,
    pub(super) averages: Averages,
    /// Requests without a complete answer, and those beyond the model's context.
    unanswered: u64,
    too_long: u64,
    /// The share of prompt tokens that an unbounded prefix cache would have, if the trace says.
    seen: Option<f64>,
}

impl Measured {
    /// Reads a trace in any format of `meridian workload`.
    pub(super) fn read(
        path: &Path,
        subject: &Subject,
        averages: Averages,
    ) -> anyhow::Result<Measured> {
        let name = path.display().to_string();
        let file = trace_file::open(path).with_context(|| format!("cannot open {name}"))?;
        let requests = trace_file::reader(file, None, &ReadOptions::default())
            .with_context(|| name.clone())?;
        let (unanswered, too_long) = (0, 0);
        let mut measured = Measured { name, averages, unanswered, too_long, seen: None };
        let mut stats =
            Stats::new(StatsOptions { cache_blocks: Vec::new(), ..StatsOptions::default() });
        // A journal has its lines in the order in which requests end.
        for request in shape(requests, &Shape::default())? {
            let request = request.with_context(|| measured.name.clone())?;
            stats.add(&request);
            measured.take(&request, subject);
        }
        measured.seen = stats.finish().reuse.map(|reuse| reuse.of_tokens);
        super::all(measured.averages.lengths(), &measured.reason())?;
        Ok(measured)
    }

    fn take(&mut self, request: &TraceRequest, subject: &Subject) {
        self.averages.arrive(request.at.since(meridian_base::Time::ZERO).as_secs_f64());
        let (prompt, output) = (request.input_tokens, request.output_tokens);
        let answered = request.outcome.is_none_or(|outcome| outcome == Outcome::Done);
        if !answered || output == 0 {
            self.unanswered += 1;
        } else if u64::from(prompt) + u64::from(output) > u64::from(subject.shape.context) {
            self.too_long += 1;
        } else {
            self.averages.add(prompt, output);
        }
    }

    /// Why there may be no lengths.
    fn reason(&self) -> String {
        let Measured { name, unanswered, too_long, .. } = self;
        format!(
            "{name}: {unanswered} requests have no answer, and {too_long} are longer than the model's \
             context"
        )
    }

    /// What was measured, and what the planner assumes.
    pub(super) fn text(&self, task: &Task<'_>) -> String {
        let Measured { name, unanswered, too_long, averages, seen } = self;
        let (prompt, output) = (task.prompt, task.output);
        let mut text = format!(
            "{name}: {} requests, prompts of {:.0} tokens (cv {:.2}), replies of {:.0} (cv {:.2})",
            averages.count(),
            prompt.mean,
            prompt.cv,
            output.mean,
            output.cv,
        );
        if let Ok(rate) = averages.rate() {
            text.push_str(&format!(", {rate:.3} requests/s"));
        }
        if *unanswered > 0 {
            text.push_str(&format!("; {unanswered} without an answer left out"));
        }
        if *too_long > 0 {
            text.push_str(&format!("; {too_long} beyond the model's context left out"));
        }
        text.push_str("\nassumed: every prompt is computed whole");
        if let Some(seen) = seen {
            let share = 100.0 * seen;
            text.push_str(&format!(
                ", as a plan has no prefix cache; {share:.0} % of the prompts' tokens were sent before"
            ));
        }
        text.push('\n');
        text
    }
}
