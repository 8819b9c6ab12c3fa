//! Recorded requests as the programs of a load, with their start times.
//!
//! A recorded prompt has lengths and block ids. Its text has four bytes for each token; an engine's
//! tokenizer makes more or fewer tokens of it, and its chat template adds some. [`Recorded::fitted`]
//! corrects both, for all prompts in the same way, so that shared beginnings stay shared.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use meridian_base::Time;
use meridian_workload::{BYTES_PER_TOKEN, Generator, Program, ProgramKey};

/// How an engine counts the tokens of a text.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tokens {
    /// Bytes of a token.
    pub bytes: f64,
    /// Tokens of an empty prompt: the chat template.
    pub template: f64,
}

/// Programs by their start times.
pub struct Recorded {
    times: Vec<Duration>,
    programs: Vec<Program>,
    /// The model of each program, as JSON; empty if all use the load's model.
    models: Vec<Arc<str>>,
}

impl Recorded {
    /// These programs, ordered by time.
    #[must_use]
    pub fn new(of: Vec<(Time, Program)>) -> Recorded {
        let (times, programs) = of.into_iter().map(|(at, p)| (at.since(Time::ZERO), p)).unzip();
        Recorded { times, programs, models: Vec::new() }
    }

    /// The same programs, each with the name of its model.
    #[must_use]
    pub fn with_models(self, names: &[Arc<str>]) -> Recorded {
        let json = |name: &Arc<str>| serde_json::Value::from(&**name).to_string().into();
        Recorded { models: names.iter().map(json).collect(), ..self }
    }

    /// The same programs for an engine that counts tokens like this.
    #[must_use]
    pub fn fitted(mut self, tokens: Tokens) -> Recorded {
        let scale = tokens.bytes / f64::from(BYTES_PER_TOKEN);
        for node in self.programs.iter_mut().flat_map(|program| &mut program.nodes) {
            for segment in &mut node.adds {
                segment.bytes = (f64::from(segment.bytes) * scale).round() as u32;
            }
            // The end makes room for the template: shared beginnings keep their length.
            let mut template = (tokens.template * tokens.bytes).round() as u32;
            for segment in node.adds.iter_mut().rev() {
                let less = template.min(segment.bytes.saturating_sub(1));
                segment.bytes -= less;
                template -= less;
            }
        }
        self
    }

    /// When each program starts, from the start of the run.
    #[must_use]
    pub fn times(&self) -> &[Duration] {
        &self.times
    }

    /// The programs, by time.
    #[must_use]
    pub fn programs(&self) -> &[Program] {
        &self.programs
    }

    /// The model of a program, as JSON, if programs have their own.
    pub(super) fn model(&self, ordinal: u64) -> Option<&str> {
        self.models.get(usize::try_from(ordinal).ok()?).map(|name| &**name)
    }
}

impl Generator for Recorded {
    /// The program with the number `key.ordinal`; beyond the last one, a program without requests.
    fn program(&self, key: ProgramKey) -> Program {
        let known = usize::try_from(key.ordinal).ok().and_then(|at| self.programs.get(at));
        known.cloned().unwrap_or_else(|| Program::new(key, Vec::new()))
    }

    fn mean_requests(&self) -> f64 {
        let requests: usize = self.programs.iter().map(|program| program.nodes.len()).sum();
        requests as f64 / self.programs.len().max(1) as f64
    }
}

impl fmt::Debug for Recorded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Recorded({} programs)", self.programs.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use meridian_workload::{Role, Segment};

    fn program(ids: &[u64]) -> Program {
        let segment = |id: &u64| Segment { role: Role::User, id: *id, bytes: 2048 };
        let key = ProgramKey { seed: 1, region: 0, client: 0, ordinal: 0 };
        Program::path(key, vec![(ids.iter().map(segment).collect(), 8)])
    }

    // For an engine with five bytes per token and a template of ten tokens, blocks of 512 tokens
    // have 2,560 bytes, and the template's bytes are missing at the end of every prompt. A template
    // longer than the last block takes the rest from the one before.
    #[test]
    fn texts_have_the_recorded_tokens() {
        let at = |s| Time::ZERO + Duration::from_secs(s);
        let both = vec![(at(0), program(&[1, 2])), (at(3), program(&[1, 3]))];
        let fitted = Recorded::new(both).fitted(Tokens { bytes: 5.0, template: 10.0 });
        assert_eq!(fitted.times(), [Duration::ZERO, Duration::from_secs(3)]);
        let bytes = |at: usize| -> Vec<u32> {
            fitted.programs()[at].nodes[0].adds.iter().map(|segment| segment.bytes).collect()
        };
        assert_eq!((bytes(0), bytes(1)), (vec![2560, 2510], vec![2560, 2510]));
        let fitted = Recorded::new(vec![(at(0), program(&[1, 2]))]);
        let fitted = fitted.fitted(Tokens { bytes: 4.0, template: 520.0 });
        let adds = &fitted.programs()[0].nodes[0].adds;
        assert_eq!([adds[0].bytes, adds[1].bytes], [2015, 1]);
    }
}
