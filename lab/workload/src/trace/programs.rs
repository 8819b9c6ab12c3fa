//! Converts traces into programs.
//!
//! A recorded prompt already contains the recorded replies, so each request is a root: its prompt
//! is exactly the recorded one, whatever the engine under test answers. The text of its reply is
//! inferred from the next turn ([`super::texts`]). By default every request is a separate program
//! that starts at its recorded time, an open loop. If chained, the requests of a session are one
//! program: one that was sent after all earlier answers of the session waits for those answers, and
//! then for the client's recorded think time. Requests that overlapped, such as an agent's branches,
//! still do.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use meridian_base::{Time, mix};

use super::texts::{Text, texts};
use super::{Answers, Fault, TraceError, TraceRequest};
use crate::{Node, Program, ProgramKey};

/// Most regions that a trace may name.
const MOST_REGIONS: usize = 1024;
/// A request that arrives this long before the end of an answer waited for it: recorded times are
/// rounded.
const SOON: Duration = Duration::from_millis(10);

/// How requests become programs.
#[derive(Clone, Debug, Default)]
pub struct ProgramOptions {
    /// Seed of text that is not shared.
    pub seed: u64,
    /// Names of regions, numbered from 0. Others follow in the order of their appearance; requests
    /// without one are in region 0.
    pub regions: Vec<Arc<str>>,
    /// Chains the requests of a session. If the trace does not record how long an answer took,
    /// these times are used.
    pub chained: Option<Answers>,
    /// Takes replies from later requests of their sessions, so that an engine under test has them
    /// cached for the next turn. Loads the whole trace into memory.
    pub replies: bool,
}

/// Programs with their start times, by time.
pub type Programs<'a> = Box<dyn Iterator<Item = Result<(Time, Program), TraceError>> + 'a>;

/// Turns requests, ordered by time, into programs. If chained or with replies, the whole trace is
/// loaded into memory.
pub fn to_programs<'a, I>(requests: I, options: &ProgramOptions) -> Programs<'a>
where
    I: Iterator<Item = Result<TraceRequest, TraceError>> + 'a,
{
    let mut maker = Maker::new(options);
    if options.replies {
        return match requests.collect::<Result<Vec<_>, _>>() {
            Ok(requests) => {
                maker.texts = texts(&requests, options.seed);
                to_chains(requests.into_iter().map(Ok), options.chained, maker)
            }
            Err(error) => Box::new(std::iter::once(Err(error))),
        };
    }
    to_chains(requests, options.chained, maker)
}

fn to_chains<'a, I>(requests: I, chained: Option<Answers>, mut maker: Maker) -> Programs<'a>
where
    I: Iterator<Item = Result<TraceRequest, TraceError>> + 'a,
{
    match chained {
        None => Box::new(requests.enumerate().map(move |(number, request)| {
            let request = request?;
            let at = request.at;
            let turn = Turn { number, level: 0, think: Duration::ZERO, request };
            Ok((at, maker.program(vec![turn])?))
        })),
        Some(answers) => match chains(requests, answers) {
            Ok(chains) => Box::new(chains.into_iter().map(move |chain| {
                let at = chain.first().map_or(Time::ZERO, |first| first.request.at);
                Ok((at, maker.program(chain)?))
            })),
            Err(error) => Box::new(std::iter::once(Err(error))),
        },
    }
}

/// A request of a program: its number in the trace, the answers that it waits for, and the time to
/// think after them.
struct Turn {
    number: usize,
    level: u32,
    think: Duration,
    request: TraceRequest,
}

/// The requests of one program.
type Chain = Vec<Turn>;

/// The recorded times of a session.
struct Level {
    chain: usize,
    level: u32,
    /// When the level began: at the end of the one before.
    began: Time,
    /// The end of the latest answer, recorded or assumed.
    ended: Time,
    /// The latest of the recorded ends.
    known: Time,
}

/// The requests of each session, by the time of its first.
fn chains(
    requests: impl Iterator<Item = Result<TraceRequest, TraceError>>,
    answers: Answers,
) -> Result<Vec<Chain>, TraceError> {
    let mut chains: Vec<Chain> = Vec::new();
    let mut sessions: HashMap<u64, Level> = HashMap::new();
    for (number, request) in requests.enumerate() {
        let request = request?;
        let e2e = request.e2e.unwrap_or_else(|| answers.e2e(request.output_tokens));
        let (at, ended) = (request.at, request.at + e2e);
        let known = if request.e2e.is_some() { ended } else { at };
        let first = |chain| Level { chain, level: 0, began: at, ended, known };
        let Some(session) = request.session else {
            chains.push(vec![first(chains.len()).turn(number, request)]);
            continue;
        };
        let now = sessions.entry(session).or_insert_with(|| {
            chains.push(Vec::new());
            first(chains.len() - 1)
        });
        if !chains[now.chain].is_empty() {
            now.next(at, (ended, known));
        }
        chains[now.chain].push(now.turn(number, request));
    }
    Ok(chains)
}

impl Level {
    /// A further request of the session begins the next level, unless an answer is known to have been
    /// on its way.
    fn next(&mut self, at: Time, (ended, known): (Time, Time)) {
        if at + SOON >= self.known {
            (self.level, self.began) = (self.level + 1, self.ended);
        }
        (self.ended, self.known) = (self.ended.max(ended), self.known.max(known));
    }

    fn turn(&self, number: usize, request: TraceRequest) -> Turn {
        Turn { number, level: self.level, think: request.at.since(self.began), request }
    }
}

struct Maker {
    seed: u64,
    made: u64,
    regions: Vec<Arc<str>>,
    /// The segments of each request, by its number, if they were inferred from the whole trace.
    texts: Vec<Text>,
}

impl Maker {
    fn new(options: &ProgramOptions) -> Maker {
        let (seed, regions) = (options.seed, options.regions.clone());
        Maker { seed, made: 0, regions, texts: Vec::new() }
    }

    fn program(&mut self, chain: Chain) -> Result<Program, TraceError> {
        let first = chain.first().map(|turn| &turn.request);
        let region = first.and_then(|request| request.region.clone());
        let session = first.and_then(|request| request.session);
        let tenant = first.and_then(|request| request.tenant).unwrap_or(0);
        let region = self.region(region)?;
        let key = ProgramKey { seed: self.seed, region, client: 0, ordinal: self.made };
        self.made += 1;
        let nodes = chain.into_iter().enumerate().map(|(at, turn)| self.node(key, at, turn));
        let mut program = Program::new(key, nodes.collect());
        program.session = session.map_or(program.session, |session| mix(session, 0x53_4553));
        program.tenant = tenant;
        Ok(program)
    }

    fn node(&mut self, key: ProgramKey, place: usize, turn: Turn) -> Node {
        let Text { prompt, reply, .. } = match self.texts.get_mut(turn.number) {
            Some(text) => std::mem::take(text),
            None => {
                let prompt = turn.request.segments(mix(key.id(), place as u64));
                Text { prompt, ..Text::default() }
            }
        };
        Node {
            parent: None,
            level: turn.level,
            adds: prompt,
            // An engine answers with one token at least.
            max_tokens: turn.request.output_tokens.max(1),
            think: turn.think,
            reply,
        }
    }

    /// The number of a region.
    fn region(&mut self, name: Option<Arc<str>>) -> Result<u32, TraceError> {
        let Some(name) = name else { return Ok(0) };
        let known = self.regions.iter().position(|region| *region == name);
        let number = known.unwrap_or(self.regions.len());
        if number >= MOST_REGIONS {
            let is = format!("one of more than {MOST_REGIONS}");
            let fault = Fault::new("region", is, "give fewer regions different names");
            return Err(TraceError::Line { line: self.made + 1, fault });
        }
        if known.is_none() {
            self.regions.push(name);
        }
        Ok(u32::try_from(number).expect("there are at most 1024 regions"))
    }
}
