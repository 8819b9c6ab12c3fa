//! Production traffic with shared system prompts and separate conversations.
//!
//! One shape with several sets of figures: a request opens with one of n templates (Zipf), then has
//! its own text, and with a fixed probability the conversation continues after the reply. Prompt
//! lengths vary far more than in human chats, since programs write many of them.
//!
//! Template lengths are drawn once for all seeds and scaled so that the mean over *requests* is
//! exact: with Zipf's law a handful of templates carry the traffic, and chance alone would move the
//! mean by a sixth. Their text differs from seed to seed.
//!
//! The popularity of the templates may flip: after each `flip_every` programs of a client (an open
//! loop counts a region's programs) the ranks of the templates move on by 0.38 of their number.
//! Templates that were popular become rare, and rare ones popular. With templates of unequal length
//! the mean prompt moves as well, so the preset `flips` has equal ones.
//!
//! Four of the presets are ours, without published statistics: each is hard on a routing policy in
//! one way.

use std::time::Duration;

use meridian_base::Rng;

use crate::lengths::{Lengths, Zipf};
use crate::spec::{GeneratorParam, GeneratorParams, GeneratorSpec, PublishedLoad, knob};
use crate::{BYTES_PER_TOKEN, Generator, Node, Program, ProgramKey, Role, Segment};

/// The generator of chats of an application's users.
pub(crate) static QWEN_A: GeneratorSpec = GeneratorSpec {
    name: "qwen_a",
    summary: "Conversations behind a few short system prompts (5.98 requests/s).",
    source: "the statistics of Qwen-Bailian's to-customer trace",
    load: PublishedLoad::PerSecond(5.98),
    params: &params([20.0, 1.0, 120.0, 0.5], [1350.0, 1.8], [0.42, 330.0, 2.0], [420.0, 0.5]),
    make: |params| Box::new(Served::new(params)),
};

/// The generator of calls by programs.
pub(crate) static QWEN_B: GeneratorSpec = GeneratorSpec {
    name: "qwen_b",
    summary: "Single calls behind many long templates (24 requests/s).",
    source: "the statistics of Qwen-Bailian's to-business trace",
    load: PublishedLoad::PerSecond(24.0),
    params: &params([400.0, 1.1, 680.0, 0.8], [340.0, 1.2], [0.03, 340.0, 1.2], [90.0, 0.5]),
    make: |params| Box::new(Served::new(params)),
};

/// The generator of agents with tools.
pub(crate) static TOOL_AGENT: GeneratorSpec = GeneratorSpec {
    name: "tool_agent",
    summary: "Agents behind long tool descriptions (6.56 requests/s).",
    source: "the statistics of Mooncake's tool and agent trace",
    load: PublishedLoad::PerSecond(6.56),
    params: &params([300.0, 1.1, 4100.0, 0.8], [4250.0, 1.6], [0.30, 1100.0, 2.0], [182.0, 0.5]),
    make: |params| Box::new(Served::new(params)),
};

/// The generator of long replies, whose decoding is most of the work.
pub(crate) static LONG_REPLIES: GeneratorSpec = GeneratorSpec {
    name: "long_replies",
    summary: "Single calls behind one shared prompt, with long replies.",
    source: "ours: running requests are the limit, and every replica has the prompt",
    load: PublishedLoad::Any,
    params: &params([1.0, 1.0, 2000.0, 0.0], [150.0, 0.8], [0.0, 150.0, 0.8], [900.0, 0.5]),
    make: |params| Box::new(Served::new(params)),
};

/// The generator of short prompts whose replies have very unlike lengths.
pub(crate) static UNLIKE_REPLIES: GeneratorSpec = GeneratorSpec {
    name: "unlike_replies",
    summary: "Short single calls, with replies of 20 tokens or of thousands.",
    source: "ours: the length of a reply can't be seen from its prompt",
    load: PublishedLoad::Any,
    params: &bounded(
        params([4.0, 1.0, 120.0, 0.3], [70.0, 0.5], [0.0, 70.0, 0.5], [300.0, 3.0]),
        8192.0,
    ),
    make: |params| Box::new(Served::new(params)),
};

/// The generator of long prompts that are worth keeping.
pub(crate) static LONG_REUSE: GeneratorSpec = GeneratorSpec {
    name: "long_reuse",
    summary: "Conversations behind 60 long templates, more than a replica's KV holds.",
    source: "ours: a new copy of a template evicts another one",
    load: PublishedLoad::Any,
    params: &params([60.0, 0.9, 9000.0, 0.3], [1500.0, 0.8], [0.3, 600.0, 1.0], [150.0, 0.5]),
    make: |params| Box::new(Served::new(params)),
};

/// The generator of templates whose popularity flips.
pub(crate) static FLIPS: GeneratorSpec = GeneratorSpec {
    name: "flips",
    summary: "Single calls behind templates whose popularity flips every 1,000 programs.",
    source: "ours: caches and indexes hold the templates that were popular before",
    load: PublishedLoad::Any,
    params: &flipping(
        params([200.0, 1.2, 3000.0, 0.0], [300.0, 1.0], [0.0, 300.0, 1.0], [120.0, 0.5]),
        1000.0,
    ),
    make: |params| Box::new(Served::new(params)),
};

/// Knobs of a preset.
type Params = [GeneratorParam; 14];

/// The places of two of them.
const MAX_CONTEXT: usize = 12;
const FLIP_EVERY: usize = 13;

/// Templates: number, exponent, mean tokens, variation; first text: mean, variation; later text:
/// probability, mean, variation; reply: mean, variation.
const fn params(templates: [f64; 4], first: [f64; 2], later: [f64; 3], reply: [f64; 2]) -> Params {
    const TOKENS: (f64, f64) = (1.0, 1e6);
    const CV: (f64, f64) = (0.0, 10.0);
    [
        knob("templates", templates[0], (1.0, 1e5), "system prompts"),
        knob("zipf", templates[1], (0.0, 3.0), "exponent of their popularity"),
        knob("template_tokens", templates[2], TOKENS, "their mean tokens, over requests"),
        knob("template_cv", templates[3], CV, "their coefficient of variation"),
        knob("first_tokens", first[0], TOKENS, "mean tokens of the first prompt behind it"),
        knob("first_cv", first[1], CV, "its coefficient of variation"),
        knob("continue", later[0], (0.0, 0.95), "probability that another turn follows"),
        knob("later_tokens", later[1], TOKENS, "mean tokens that a later turn adds"),
        knob("later_cv", later[2], CV, "its coefficient of variation"),
        knob("reply_tokens", reply[0], TOKENS, "mean tokens of a reply"),
        knob("reply_cv", reply[1], CV, "its coefficient of variation"),
        knob("think_s", 0.0, (0.0, 86_400.0), "mean seconds between a reply and the next turn"),
        knob("max_context", 131_072.0, (256.0, 1e7), "most tokens of prompt and reply"),
        knob(
            "flip_every",
            0.0,
            (0.0, 1e9),
            "programs of a client, or of a region in an open loop, after which the popularity of \
             the templates flips; 0 for never",
        ),
    ]
}

/// The knobs with a default for the most tokens of prompt and reply.
const fn bounded(mut params: Params, tokens: f64) -> Params {
    params[MAX_CONTEXT].default = tokens;
    params
}

/// The knobs with a default for the programs between flips.
const fn flipping(mut params: Params, programs: f64) -> Params {
    params[FLIP_EVERY].default = programs;
    params
}

/// Random paths within a program.
const TEMPLATE: u64 = u64::MAX - 2;
const TURNS: u64 = u64::MAX;

/// Tag of the templates' text.
const TAG: u64 = 3 << 32;

/// Share of the templates by which a flip moves their ranks on: the golden section, so that several
/// flips in a row meet other templates each time.
const FLIP: f64 = 0.382;

/// Most turns of a conversation.
const MOST_TURNS: u64 = 200;

/// Generates conversations that start with shared templates.
struct Served {
    popularity: Zipf,
    /// Tokens of each template.
    templates: Vec<u32>,
    first: Lengths,
    later: Lengths,
    reply: Lengths,
    goes_on: f64,
    think_s: f64,
    max_context: u32,
    flip_every: u64,
}

impl Served {
    fn new(params: &GeneratorParams) -> Served {
        let max_context = params.count("max_context");
        let lengths =
            |mean, cv| Lengths::by_mean(params.number(mean), params.number(cv), max_context);
        let popularity = Zipf::new(params.count("templates") as usize, params.number("zipf"));
        let template = lengths("template_tokens", "template_cv");
        Served {
            templates: scaled(&popularity, template, params.number("template_tokens")),
            popularity,
            first: lengths("first_tokens", "first_cv"),
            later: lengths("later_tokens", "later_cv"),
            reply: lengths("reply_tokens", "reply_cv"),
            goes_on: params.number("continue"),
            think_s: params.number("think_s"),
            max_context,
            flip_every: u64::from(params.count("flip_every")),
        }
    }

    /// The template that a program opens with: its rank, moved on by the flips before it.
    fn template(&self, key: ProgramKey) -> usize {
        let rank = self.popularity.draw(&mut key.rng(TEMPLATE));
        let flips = key.ordinal.checked_div(self.flip_every).unwrap_or(0);
        let all = self.templates.len() as u64;
        let step = (all as f64 * FLIP) as u64 + 1;
        ((rank as u64 + flips % all * step) % all) as usize
    }

    /// One turn: text of its own, the reply's tokens, and the pause before it.
    fn turn(&self, key: ProgramKey, at: u64) -> (Segment, u32, Duration) {
        let mut rng = key.rng(at);
        let id = rng.next_u64();
        let text = if at == 0 { &self.first } else { &self.later };
        let bytes = text.draw(&mut rng) * BYTES_PER_TOKEN;
        let reply = self.reply.draw(&mut rng);
        let think = match at {
            0 => Duration::ZERO,
            _ => Duration::from_secs_f64(rng.exponential(self.think_s)),
        };
        (Segment { role: Role::User, id, bytes }, reply, think)
    }
}

impl Generator for Served {
    fn program(&self, key: ProgramKey) -> Program {
        let template = self.template(key);
        let bytes = self.templates[template] * BYTES_PER_TOKEN;
        let id = key.shared(TAG | template as u64);
        let mut adds = vec![Segment { role: Role::System, id, bytes }];
        let (mut nodes, mut context) = (Vec::new(), self.templates[template]);
        let mut goes_on = key.rng(TURNS);
        for at in 0..MOST_TURNS {
            let (text, max_tokens, think) = self.turn(key, at);
            context += text.bytes / BYTES_PER_TOKEN + max_tokens;
            if at > 0 && (context > self.max_context || goes_on.unit() >= self.goes_on) {
                break;
            }
            adds.push(text);
            let parent = nodes.len().checked_sub(1);
            let adds = std::mem::take(&mut adds);
            nodes.push(Node { parent, level: at as u32, adds, max_tokens, think, reply: None });
        }
        Program::new(key, nodes)
    }

    fn mean_requests(&self) -> f64 {
        1.0 / (1.0 - self.goes_on)
    }
}

/// Lengths for as many templates as there are ranks, whose mean over requests is `mean`.
fn scaled(popularity: &Zipf, template: Lengths, mean: f64) -> Vec<u32> {
    let mut rng = Rng::new(0x0054_454D_504C_4154);
    let drawn: Vec<f64> = popularity.shares().map(|_| f64::from(template.draw(&mut rng))).collect();
    let got: f64 = popularity.shares().zip(&drawn).map(|(share, tokens)| share * tokens).sum();
    drawn.iter().map(|tokens| (libm::round(tokens * mean / got) as u32).max(1)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many of a client's programs open with each of 200 templates.
    fn opened(spec: &'static GeneratorSpec, ordinals: std::ops::Range<u64>) -> Vec<usize> {
        let generator = spec.published();
        let key = |ordinal| ProgramKey { seed: 3, region: 1, client: 0, ordinal };
        let ids: Vec<u64> =
            ordinals.map(|i| generator.program(key(i)).nodes[0].adds[0].id).collect();
        let count = |id| ids.iter().filter(|other| **other == id).count();
        (0..200).map(|template| count(key(0).shared(TAG | template))).collect()
    }

    fn top(seen: &[usize]) -> usize {
        (0..seen.len()).max_by_key(|i| seen[*i]).unwrap()
    }

    // A flip makes a rare template the most popular one, and the popular one rare; between flips,
    // and in a preset without flips, the popular one stays.
    #[test]
    fn a_flip_changes_the_top_template() {
        let [first, again, flipped] =
            [0..500, 500..1000, 1000..2000].map(|ordinals| opened(&FLIPS, ordinals));
        assert_eq!(top(&first), 0);
        assert_eq!(top(&again), 0);
        assert_eq!(top(&flipped), 77);
        assert!(first[77] < 10 && flipped[0] < 20, "{} {}", first[77], flipped[0]);
        assert_eq!(top(&opened(&QWEN_B, 4_000..4_400)), 0);
    }

    // Half of the unlike replies have at most 110 tokens, one in a hundred has thousands.
    #[test]
    fn replies_are_unlike() {
        let generator = UNLIKE_REPLIES.published();
        let reply = |ordinal| {
            let key = ProgramKey { seed: 3, region: 0, client: 0, ordinal };
            generator.program(key).nodes[0].max_tokens
        };
        let mut replies: Vec<u32> = (0..5000).map(reply).collect();
        replies.sort_unstable();
        let [p10, p50, p99] = [500, 2500, 4950].map(|i| replies[i]);
        assert!(p10 < 20 && (80..110).contains(&p50) && p99 > 2000, "{p10}, {p50}, {p99}");
    }
}
