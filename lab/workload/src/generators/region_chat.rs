//! Chat of users in regions, as SkyWalker measured it in ChatBot Arena and WildChat.
//!
//! Turns and lengths are those of [`Chat`](crate::Chat). Each conversation belongs to a user of its
//! region, drawn by Zipf's law, so a busy user has several conversations at a time, and hashing by
//! user sends them all to one replica. Conversations open with templates as often as `openings.rs`
//! solves for the published similarities.
//!
//! A share of the turns does not continue the conversation verbatim: the history in the prompt
//! differs from the text that the engine has cached (the client shortened it, the user edited it,
//! or it has a recorded reply instead of the engine's), so only the opening can match. With full
//! continuation an unbounded cache would match about nine tenths of all prompt tokens, while
//! SkyWalker reports 37-47 % for its best system: `continuation` covers the difference, and no
//! source publishes it.
//!
//! It deliberately does not model the regions' locations or hours: those belong to the arrivals.

use std::time::Duration;

use meridian_base::mix;

use super::chat;
use super::openings::{Ground, Opening, Openings, Targets};
use crate::lengths::Zipf;
use crate::similarity::{Asked, pair_similarity};
use crate::spec::{GeneratorParam, GeneratorParams, GeneratorSpec, PublishedLoad, knob};
use crate::{BYTES_PER_TOKEN, Generator, Node, Program, ProgramKey, Segment, prompt_of};

/// The generator of ChatBot Arena's chats.
pub(crate) static ARENA: GeneratorSpec = GeneratorSpec {
    name: "arena",
    summary: "Chat in regions, shared text as in ChatBot Arena.",
    source: "SkyWalker sections 3.2 and 5.1; turns and lengths of WildChat",
    load: PublishedLoad::Clients(&[80, 80, 80]),
    params: &params(400.0, 0.08, 0.08, 2.47),
    make: |params| Box::new(RegionChat::new(params)),
};

/// The generator of WildChat's chats.
pub(crate) static WILDCHAT: GeneratorSpec = GeneratorSpec {
    name: "wildchat",
    summary: "Chat in regions, shared text as in WildChat.",
    source: "SkyWalker sections 3.2 and 5.1; turns and lengths of WildChat",
    load: PublishedLoad::Clients(&[40, 30, 30]),
    params: &params(200.0, 0.025, 0.03, 7.60),
    make: |params| Box::new(RegionChat::new(params)),
};

const fn params(users: f64, regions: f64, near: f64, ratio: f64) -> [GeneratorParam; 11] {
    [
        knob("users", users, (1.0, 1e6), "users of a region"),
        knob("zipf", 0.8, (0.0, 3.0), "exponent of the users' shares of the conversations"),
        knob("across_regions", regions, (0.0, 1.0), "prefix similarity across regions"),
        knob("across_users", near, (0.0, 1.0), "prefix similarity across users of a region"),
        knob("within_ratio", ratio, (0.0, 100.0), "similarity within users over that across users"),
        knob("templates", 1.0, (1.0, 1e4), "openings that all share, and those of each region"),
        knob("habits", 1.0, (1.0, 1e4), "openings of each user"),
        knob("continuation", 0.55, (0.0, 1.0), "share of later turns that extend the earlier text"),
        knob("think_s", 0.0, (0.0, 86_400.0), "mean seconds between a reply and the next turn"),
        knob("max_context", 16_384.0, (256.0, 1e7), "tokens at which a conversation ends"),
        knob("max_tokens", 2048.0, (1.0, 1e6), "most tokens of a reply"),
    ]
}

/// Random paths within a program, far from the turns' own.
const USER: u64 = u64::MAX - 2;
const CONTINUES: u64 = 1 << 40;
const REWRITTEN: u64 = 1 << 41;

/// Tags of text that programs share.
const GLOBAL: u64 = 1 << 32;
const REGIONAL: u64 = 2 << 32;
const HABIT: u64 = 7 << 32;

/// Share of a first prompt that is its template, if it has one.
const HEAD_SHARE: f64 = 0.9;

/// Conversations a region for which the published ratio of similarities is solved: the share of a
/// user's pairs within one conversation depends on the number of conversations compared.
const SAMPLE: f64 = 1000.0;

/// Generates chats of users in regions.
pub(crate) struct RegionChat {
    users: Zipf,
    openings: Openings,
    continuation: f64,
    think_s: f64,
    max_context: u32,
    max_tokens: u32,
}

impl RegionChat {
    fn new(params: &GeneratorParams) -> RegionChat {
        let mut chat = RegionChat {
            users: Zipf::new(params.count("users") as usize, params.number("zipf")),
            openings: Openings::default(),
            continuation: params.number("continuation"),
            think_s: params.number("think_s"),
            max_context: params.count("max_context"),
            max_tokens: params.count("max_tokens"),
        };
        let targets = Targets {
            across_regions: params.number("across_regions"),
            across_users: params.number("across_users"),
            within_ratio: params.number("within_ratio"),
            templates: params.count("templates"),
            habits: params.count("habits"),
        };
        chat.openings = Openings::solve(targets, chat.ground());
        chat
    }

    /// Measures the inputs for the shares of openings: conversations without templates, then the
    /// same conversations with one template for all.
    fn ground(&self) -> Ground {
        let sample = |opening| -> Vec<Vec<Asked>> {
            let key =
                |ordinal| ProgramKey { seed: 0x0047_524F_554E_4421, region: 0, client: 0, ordinal };
            let ask = |program: Program| {
                let ask = |node| Asked {
                    region: 0,
                    user: program.key.ordinal,
                    prompt: prompt_of(&program, node),
                };
                (0..program.nodes.len()).map(ask).collect()
            };
            (0..GROUND).map(|i| ask(self.conversation(key(i), 0, opening))).collect()
        };
        let (plain, opened) = (sample(Opening::Plain), sample(Opening::Global(0)));
        let sizes = || opened.iter().map(|c| c.len() as f64);
        let mean = sizes().sum::<f64>() / GROUND as f64;
        let pairs = sizes().map(|n| n * (n - 1.0)).sum::<f64>() / GROUND as f64;
        let others = (SAMPLE - 1.0) * self.users.same() * mean * mean;
        Ground {
            kappa: between(&opened),
            plain: inside(&plain),
            opened: inside(&opened),
            same: pairs / (pairs + others),
        }
    }

    /// The conversation of `key` and `user` with the given opening.
    fn conversation(&self, key: ProgramKey, user: u64, opening: Opening) -> Program {
        let template = match opening {
            Opening::Plain => None,
            Opening::Global(n) => Some(key.shared(GLOBAL | n)),
            Opening::Regional(n) => Some(mix(key.shared(REGIONAL | n), u64::from(key.region))),
            Opening::Personal(n) => Some(mix(user, HABIT | n)),
        };
        let mut program = Program::new(key, Vec::new());
        program.session = user;
        let (mut head, mut context) = (None, 0);
        for turn in 0..chat::turns(&mut key.rng(u64::MAX)) {
            let (question, max_tokens) = chat::turn(key, turn, chat::MAX_PROMPT, self.max_tokens);
            context += question.bytes / BYTES_PER_TOKEN + max_tokens;
            if turn > 0 && context > self.max_context {
                break;
            }
            let node = match template {
                Some(id) if turn == 0 => {
                    let split = open(question, id);
                    head = Some(split[0]);
                    Node { adds: split.to_vec(), ..root(max_tokens) }
                }
                _ if turn == 0 => Node { adds: vec![question], ..root(max_tokens) },
                _ => self.later(&program, turn, head, question, max_tokens),
            };
            program.nodes.push(node);
        }
        program
    }

    /// A later turn: after the earlier ones, or with their text rewritten.
    fn later(
        &self,
        program: &Program,
        turn: u64,
        head: Option<Segment>,
        question: Segment,
        max_tokens: u32,
    ) -> Node {
        let mut rng = program.key.rng(CONTINUES | turn);
        let continues = rng.unit() < self.continuation;
        let mut adds = if continues { Vec::new() } else { rewritten(program, turn, head) };
        adds.push(question);
        Node {
            parent: continues.then(|| program.nodes.len() - 1),
            level: turn as u32,
            adds,
            max_tokens,
            think: Duration::from_secs_f64(rng.exponential(self.think_s)),
            reply: None,
        }
    }
}

impl Generator for RegionChat {
    fn program(&self, key: ProgramKey) -> Program {
        let mut rng = key.rng(USER);
        let rank = self.users.draw(&mut rng) as u64;
        let region = mix(key.shared(USER), u64::from(key.region));
        self.conversation(key, mix(region, rank), self.openings.pick(rng.unit()))
    }

    fn mean_requests(&self) -> f64 {
        chat::MEAN_TURNS
    }
}

fn root(max_tokens: u32) -> Node {
    Node {
        parent: None,
        level: 0,
        adds: Vec::new(),
        max_tokens,
        think: Duration::ZERO,
        reply: None,
    }
}

/// Splits a first prompt into a template's beginning and its own text; the length stays.
fn open(question: Segment, template: u64) -> [Segment; 2] {
    let bytes = (libm::round(f64::from(question.bytes) * HEAD_SHARE) as u32).max(1);
    let own = question.bytes - bytes.min(question.bytes - 1);
    let head = Segment { id: template, bytes: question.bytes - own, ..question };
    [head, Segment { bytes: own, ..question }]
}

/// The conversation so far in other words, as long as it was; its head stays.
fn rewritten(program: &Program, turn: u64, head: Option<Segment>) -> Vec<Segment> {
    let last = program.nodes.len() - 1;
    let mut text = prompt_of(program, last);
    text.extend_from_slice(program.reply(last).segments());
    let salt = mix(program.key.id(), REWRITTEN | turn);
    for (i, segment) in text.iter_mut().enumerate() {
        if i > 0 || head.is_none() {
            segment.id = mix(salt, i as u64);
        }
    }
    text
}

/// Conversations that the similarities are measured on.
const GROUND: u64 = 2000;

/// Mean similarity of requests within conversations, over all pairs.
fn inside(conversations: &[Vec<Asked>]) -> f64 {
    let (mut sum, mut pairs) = (0.0, 0.0);
    for asked in conversations {
        for (i, a) in asked.iter().enumerate() {
            for b in &asked[..i] {
                sum += pair_similarity(&a.prompt, &b.prompt);
                pairs += 1.0;
            }
        }
    }
    if pairs > 0.0 { sum / pairs } else { 0.0 }
}

/// Mean similarity of requests of different conversations: all pairs with the next 20.
fn between(conversations: &[Vec<Asked>]) -> f64 {
    let (mut sum, mut pairs) = (0.0, 0.0);
    for (i, some) in conversations.iter().enumerate() {
        for other in conversations.iter().skip(i + 1).take(20) {
            for a in some {
                sum += other.iter().map(|b| pair_similarity(&a.prompt, &b.prompt)).sum::<f64>();
                pairs += other.len() as f64;
            }
        }
    }
    sum / pairs
}
