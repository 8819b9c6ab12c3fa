//! An agent's loop in which each step calls several tools at once.
//!
//! One request plans, then each step sends `branch` requests at the same time. All of them extend
//! the previous step, each with the result of its own tool, and the next step continues from the
//! first of them. All agents start with the same tool descriptions. Several requests need the
//! prefix of a step at the same moment, right after one replica has computed it.

use std::time::Duration;

use crate::lengths::Lengths;
use crate::spec::{GeneratorParams, GeneratorSpec, PublishedLoad, knob};
use crate::{BYTES_PER_TOKEN, Generator, Node, Program, ProgramKey, Role, Segment};

/// The generator of loops of tool calls.
pub(crate) static SPEC: GeneratorSpec = GeneratorSpec {
    name: "tool_loop",
    summary: "An agent's loop: each step branches into calls that run at once.",
    source: "llm-cache-router, the branching shape it names; lengths ours",
    load: PublishedLoad::Any,
    params: &[
        knob("steps", 4.0, (0.0, 100.0), "steps after the plan"),
        knob("branch", 3.0, (1.0, 32.0), "requests of a step"),
        knob("system_bytes", 6144.0, (1.0, 1e7), "bytes of the tool descriptions that all share"),
        knob("question_bytes", 160.0, (1.0, 1e7), "bytes of the task"),
        knob("result_tokens", 200.0, (1.0, 1e6), "mean tokens of a tool's result"),
        knob("result_cv", 1.0, (0.0, 10.0), "its coefficient of variation"),
        knob("max_tokens", 64.0, (1.0, 1e6), "tokens of a reply"),
        knob("tool_s", 0.0, (0.0, 3600.0), "mean seconds that a tool takes"),
    ],
    make: |params| Box::new(ToolLoop::new(params)),
};

/// Tag of the tool descriptions' text.
const SYSTEM: u64 = 6 << 32;

struct ToolLoop {
    steps: u32,
    branch: u32,
    system_bytes: u32,
    question_bytes: u32,
    result: Lengths,
    max_tokens: u32,
    tool_s: f64,
}

impl ToolLoop {
    fn new(params: &GeneratorParams) -> ToolLoop {
        let (mean, cv) = (params.number("result_tokens"), params.number("result_cv"));
        ToolLoop {
            steps: params.count("steps"),
            branch: params.count("branch"),
            system_bytes: params.count("system_bytes"),
            question_bytes: params.count("question_bytes"),
            result: Lengths::by_mean(mean, cv, 1 << 17),
            max_tokens: params.count("max_tokens"),
            tool_s: params.number("tool_s"),
        }
    }

    fn plan(&self, key: ProgramKey) -> Node {
        let id = key.rng(0).next_u64();
        let adds = vec![
            Segment { role: Role::System, id: key.shared(SYSTEM), bytes: self.system_bytes },
            Segment { role: Role::User, id, bytes: self.question_bytes },
        ];
        let think = Duration::ZERO;
        Node { parent: None, level: 0, adds, max_tokens: self.max_tokens, think, reply: None }
    }

    fn call(&self, key: ProgramKey, step: u32, branch: u32) -> Node {
        // The first request of the previous step; the plan is alone in its step.
        let parent = (step as usize - 1).checked_sub(1).map_or(0, |s| 1 + s * self.branch as usize);
        let mut rng = key.rng(u64::from(step) << 32 | u64::from(branch));
        let id = rng.next_u64();
        let bytes = self.result.draw(&mut rng) * BYTES_PER_TOKEN;
        let think = Duration::from_secs_f64(rng.exponential(self.tool_s));
        let adds = vec![Segment { role: Role::User, id, bytes }];
        Node {
            parent: Some(parent),
            level: step,
            adds,
            max_tokens: self.max_tokens,
            think,
            reply: None,
        }
    }
}

impl Generator for ToolLoop {
    fn program(&self, key: ProgramKey) -> Program {
        let calls = (1..=self.steps)
            .flat_map(|step| (0..self.branch).map(move |branch| self.call(key, step, branch)));
        Program::new(key, std::iter::once(self.plan(key)).chain(calls).collect())
    }

    fn mean_requests(&self) -> f64 {
        f64::from(1 + self.steps * self.branch)
    }
}
