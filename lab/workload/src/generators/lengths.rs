//! Single requests with given lengths and no common text: the load that a plan is made for.
//!
//! Prompt and reply are lognormal. As in the planner, a prompt leaves room for a mean reply in the
//! context; a reply is cut where the context ends.

use crate::lengths::Lengths;
use crate::spec::{GeneratorParams, GeneratorSpec, PublishedLoad, knob};
use crate::{BYTES_PER_TOKEN, Generator, Program, ProgramKey, Role, Segment};

/// The generator.
pub(crate) static SPEC: GeneratorSpec = GeneratorSpec {
    name: "lengths",
    summary: "Single requests with lognormal lengths, none of whose text repeats.",
    source: "ours: the lengths of a plan",
    load: PublishedLoad::Any,
    params: &[
        knob("prompt_tokens", 1000.0, (1.0, 1e6), "mean tokens of a prompt"),
        knob("prompt_cv", 1.0, (0.0, 10.0), "their coefficient of variation"),
        knob("reply_tokens", 250.0, (1.0, 1e6), "mean tokens of a reply"),
        knob("reply_cv", 1.0, (0.0, 10.0), "their coefficient of variation"),
        knob("max_context", 131_072.0, (16.0, 1e7), "most tokens of prompt and reply"),
    ],
    make: |params| Box::new(Single::new(params)),
};

struct Single {
    prompt: Lengths,
    reply: Lengths,
    max_context: u32,
}

impl Single {
    fn new(params: &GeneratorParams) -> Single {
        let max_context = params.count("max_context");
        let lengths =
            |name, cv, most| Lengths::by_mean(params.number(name), params.number(cv), most);
        let room = max_context.saturating_sub(params.count("reply_tokens"));
        Single {
            prompt: lengths("prompt_tokens", "prompt_cv", room.clamp(1, max_context - 1)),
            reply: lengths("reply_tokens", "reply_cv", max_context),
            max_context,
        }
    }
}

impl Generator for Single {
    fn program(&self, key: ProgramKey) -> Program {
        let mut rng = key.rng(0);
        let (id, prompt) = (rng.next_u64(), self.prompt.draw(&mut rng));
        let reply = self.reply.draw(&mut rng).min(self.max_context - prompt);
        let prompt = Segment { role: Role::User, id, bytes: prompt * BYTES_PER_TOKEN };
        Program::path(key, vec![(vec![prompt], reply)])
    }

    fn mean_requests(&self) -> f64 {
        1.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(knobs: &[(&str, f64)]) -> Vec<(u32, u32)> {
        let knobs: Vec<(String, f64)> = knobs.iter().map(|(k, v)| ((*k).into(), *v)).collect();
        let generator = SPEC.build(&knobs).unwrap();
        let of = |ordinal| {
            let key = ProgramKey { seed: 3, region: 0, client: 0, ordinal };
            let node = generator.program(key).nodes[0].clone();
            (node.adds[0].bytes / BYTES_PER_TOKEN, node.max_tokens)
        };
        (0..20_000).map(of).collect()
    }

    // Long contexts keep the means and the variation; in a short one every request fits, and each
    // prompt leaves room for a mean reply.
    #[test]
    fn lengths_are_those_of_the_knobs() {
        let all = pairs(&[("prompt_tokens", 800.0), ("prompt_cv", 0.5)]);
        let mean = |of: fn(&(u32, u32)) -> u32| {
            all.iter().map(|pair| f64::from(of(pair))).sum::<f64>() / all.len() as f64
        };
        assert!((mean(|pair| pair.0) / 800.0 - 1.0).abs() < 0.02);
        assert!((mean(|pair| pair.1) / 250.0 - 1.0).abs() < 0.03);
        let long = all.iter().filter(|(prompt, _)| *prompt > 1_600).count() as f64;
        assert!((0.03..0.07).contains(&(long / all.len() as f64)), "{long}");
        let cut = pairs(&[("max_context", 2048.0)]);
        assert!(cut.iter().all(|(prompt, reply)| prompt + reply <= 2048 && *prompt <= 1798));
        assert!(cut.iter().any(|(prompt, _)| *prompt == 1798));
        assert!(cut.iter().any(|(prompt, reply)| prompt + reply == 2048));
    }
}
