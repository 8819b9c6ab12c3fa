//! Coding agents: a main agent's turns with tools, some of which hand parts of the task to sub-agents.
//!
//! All agents of a kind start with the same system prompt and tool descriptions, which is most of what they send
//! (Claude Code's is some 15,000 tokens long, that of its sub-agents shorter). A turn adds the result of a tool to all
//! that came before. A task that delegates starts its sub-agents after the first reply, all at once, each with a
//! conversation of its own; the main agent continues with what they found. One session is one task: its sub-agents
//! have its key.

use std::time::Duration;

use meridian_base::Rng;

use crate::lengths::Lengths;
use crate::spec::{GeneratorParams, GeneratorSpec, PublishedLoad, knob};
use crate::{BYTES_PER_TOKEN, Generator, Node, Program, ProgramKey, Role, Segment};

/// The generator of agents' tasks.
pub(crate) static SPEC: GeneratorSpec = GeneratorSpec {
    name: "agents",
    summary: "Coding agents with tools and sub-agents: 2 to 20 turns over a long shared system prompt.",
    source: "ours: the shape of Claude Code's and Codex's traffic; lengths chosen, none published",
    load: PublishedLoad::Any,
    params: &[
        knob("turns", 11.0, (2.0, 100.0), "mean turns of a main agent, 2 at least"),
        knob(
            "system_tokens",
            12_000.0,
            (1.0, 1e6),
            "tokens of the system prompt that all main agents share",
        ),
        knob("task_tokens", 400.0, (1.0, 1e6), "mean tokens of a task"),
        knob("result_tokens", 800.0, (1.0, 1e6), "mean tokens of a tool's result"),
        knob("result_cv", 1.5, (0.0, 10.0), "coefficient of variation of tasks and results"),
        knob("reply_tokens", 150.0, (1.0, 1e6), "mean tokens of a reply"),
        knob("reply_cv", 1.0, (0.0, 10.0), "its coefficient of variation"),
        knob("tool_s", 2.0, (0.0, 3600.0), "mean seconds that a tool takes"),
        knob("delegating", 0.25, (0.0, 1.0), "share of the tasks with sub-agents"),
        knob("sub_agents", 4.0, (0.0, 64.0), "sub-agents of such a task"),
        knob("sub_turns", 5.0, (2.0, 100.0), "mean turns of a sub-agent, 2 at least"),
        knob(
            "sub_system_tokens",
            4000.0,
            (1.0, 1e6),
            "tokens of the system prompt that all sub-agents share",
        ),
    ],
    make: |params| Box::new(Agents::new(params)),
};

/// Tags of the system prompts' texts.
const MAIN: u64 = 7 << 32;
const SUB: u64 = 8 << 32;
/// Most tokens of a result or a reply.
const MOST: u32 = 1 << 15;

struct Agents {
    turns: u32,
    system_bytes: u32,
    task: Lengths,
    result: Lengths,
    reply: Lengths,
    tool_s: f64,
    delegating: f64,
    sub_agents: u32,
    sub_turns: u32,
    sub_system_bytes: u32,
}

impl Agents {
    fn new(params: &GeneratorParams) -> Agents {
        let lengths = |name, cv| Lengths::by_mean(params.number(name), params.number(cv), MOST);
        let bytes = |name| params.count(name) * BYTES_PER_TOKEN;
        Agents {
            turns: params.count("turns"),
            system_bytes: bytes("system_tokens"),
            task: lengths("task_tokens", "result_cv"),
            result: lengths("result_tokens", "result_cv"),
            reply: lengths("reply_tokens", "reply_cv"),
            tool_s: params.number("tool_s"),
            delegating: params.number("delegating"),
            sub_agents: params.count("sub_agents"),
            sub_turns: params.count("sub_turns"),
            sub_system_bytes: bytes("sub_system_tokens"),
        }
    }
}

impl Generator for Agents {
    fn program(&self, key: ProgramKey) -> Program {
        let mut rng = key.rng(0);
        let turns = turns(&mut rng, self.turns);
        let delegates = self.sub_agents > 0 && rng.unit() < self.delegating;
        let mut nodes = vec![self.opening(key, &mut rng, (MAIN, self.system_bytes), 0)];
        if delegates {
            self.delegate(key, &mut rng, &mut nodes);
        }
        for turn in 1..turns {
            let parent = if turn == 1 { 0 } else { nodes.len() - 1 };
            let level = nodes[nodes.len() - 1].level + 1;
            nodes.push(self.turn(&mut rng, parent, level));
        }
        Program::new(key, nodes)
    }

    fn mean_requests(&self) -> f64 {
        f64::from(self.turns) + self.delegating * f64::from(self.sub_agents * self.sub_turns)
    }
}

impl Agents {
    /// An agent's first request, with the system prompt of its kind.
    fn opening(
        &self,
        key: ProgramKey,
        rng: &mut Rng,
        (kind, bytes): (u64, u32),
        level: u32,
    ) -> Node {
        let system = Segment { role: Role::System, id: key.shared(kind), bytes };
        let task = user(rng, &self.task);
        Node {
            parent: None,
            level,
            adds: vec![system, task],
            max_tokens: self.reply.draw(rng),
            think: Duration::ZERO,
            reply: None,
        }
    }

    /// The next request of an agent: what its tool said.
    fn turn(&self, rng: &mut Rng, parent: usize, level: u32) -> Node {
        Node {
            parent: Some(parent),
            level,
            adds: vec![user(rng, &self.result)],
            max_tokens: self.reply.draw(rng),
            think: Duration::from_secs_f64(rng.exponential(self.tool_s)),
            reply: None,
        }
    }

    /// Adds all requests of the sub-agents, which take their turns side by side.
    fn delegate(&self, key: ProgramKey, rng: &mut Rng, nodes: &mut Vec<Node>) {
        // How many turns each takes, and its newest request.
        let mut agents: Vec<(u32, usize)> =
            (0..self.sub_agents).map(|_| (turns(rng, self.sub_turns), 0)).collect();
        let most = agents.iter().map(|(turns, _)| *turns).max().unwrap_or(0);
        for level in 1..=most {
            for (_, newest) in agents.iter_mut().filter(|(turns, _)| level <= *turns) {
                let node = match level {
                    1 => self.opening(key, rng, (SUB, self.sub_system_bytes), level),
                    _ => self.turn(rng, *newest, level),
                };
                *newest = nodes.len();
                nodes.push(node);
            }
        }
    }
}

/// Turns around their mean, from 2 to as far above it.
fn turns(rng: &mut Rng, mean: u32) -> u32 {
    2 + rng.below(2 * (mean as usize - 2) + 1) as u32
}

fn user(rng: &mut Rng, tokens: &Lengths) -> Segment {
    let id = rng.next_u64();
    Segment { role: Role::User, id, bytes: tokens.draw(rng) * BYTES_PER_TOKEN }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Sub-agents of one task share its session and their own system prompt, start after its first reply, and end
    // before it goes on.
    #[test]
    fn sub_agents_belong_to_their_task() {
        let agents = SPEC
            .build(&[("delegating".into(), 1.0), ("sub_agents".into(), 30.0)])
            .expect("in range");
        let program = agents.program(ProgramKey { seed: 1, region: 0, client: 0, ordinal: 0 });
        let roots: Vec<&Node> = program.nodes.iter().filter(|node| node.parent.is_none()).collect();
        assert_eq!(roots.len(), 31);
        assert!(roots[1..].iter().all(|root| root.level == 1 && root.adds[0] == roots[1].adds[0]));
        assert_ne!(roots[0].adds[0], roots[1].adds[0]);
        let second = program
            .nodes
            .iter()
            .rev()
            .find(|node| node.parent == Some(0))
            .expect("two turns at least");
        let subs = program.nodes.iter().filter(|node| node.level < second.level);
        assert_eq!(
            subs.count(),
            program.nodes.iter().position(|node| node == second).expect("it is one")
        );
    }
}
