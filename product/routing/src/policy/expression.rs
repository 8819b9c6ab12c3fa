//! A policy that is a text in the configuration: the replica with the lowest value of an expression.
//!
//! ```text
//! policy: {name: expression, score: "unmatched_tokens * ms_per_token + 50 * pending"}
//! ```
//!
//! Names are the figures that the machine keeps of a replica (`expression/figures.rs`), so a new
//! rule needs no build. Arithmetic is in `f32` with `libm`'s functions, in the order of the text: an
//! expression that repeats a built-in policy's formula gives the same bits, and so the same ties.
//! A value that is not a number counts as infinite and never wins over one that is.
//!
//! With `wait`, a request waits for a full replica if that one's score, with this number added, is
//! still the lowest (delay scheduling, Zaharia et al. 2010).
//!
//! It does not price peers or pairs of prefill and decode replicas: a request is forwarded to the
//! nearest peer when no replica here is eligible, and the score chooses each role by itself. It has
//! no state and no loops, and its size is bounded, so the time of a decision is too.

mod figures;
mod ops;
mod parse;
mod program;

use alloc::boxed::Box;
use alloc::vec::Vec;
use meridian_base::{ReplicaId, Rng};

use self::figures::{Candidates, LANES, Live, Recorded, Shared};
pub use self::figures::{FIGURES, Figure};
pub use self::ops::{FUNCTIONS, Known};
use self::program::{Program, Registers};
use super::choose::Least;
use super::spec::{TOTAL_BLOCKS, TextError};
use super::{Features, Param, Params, Pick, Policy, Spec, View};
use crate::admission::Admission;
use crate::explain::{CandidateRow, Decision};
use crate::index::{Evict, IndexSpec, Insert};

pub(super) static SPEC: Spec = Spec {
    name: "expression",
    summary: "the lowest value of an expression over the figures of a replica",
    source: "docs/routing.md",
    params: &[
        Param::text("score", "outstanding", &[], score, "expression; the lowest value wins"),
        Param::text(
            "wait",
            "off",
            &["off"],
            wait,
            "expression: what the score of a full replica gets in addition; if the lowest is then still lower than all others, the request waits; off: never",
        ),
        Param::number("block_bytes", 64.0, (4.0, 4096.0), "bytes of a block of the prefix index"),
        Param::word_or(
            "blocks",
            &["kv"],
            (1.0, 4_194_304.0),
            "blocks remembered of a replica; kv: as many as its KV cache holds",
        ),
        Param::word(
            "insert",
            &["both", "dispatch", "answer"],
            "when a prompt counts as cached: at the dispatch, with its reply after the answer, or both",
        ),
    ],
    admission: Admission::PendingKv,
    index,
    head_bytes: |_| 0,
    build: |p| {
        Box::new(Expression {
            score: program(p, "score").expect("an expression is always given"),
            wait: program(p, "wait"),
        })
    },
};

/// An index if an expression looks at matches.
fn index(p: &Params) -> Option<IndexSpec> {
    let matches = |name| program(p, name).is_some_and(|program| program.matches());
    (matches("score") || matches("wait")).then(|| IndexSpec {
        block_bytes: p.count("block_bytes") as usize,
        per_target_blocks: p.number("blocks").map(|blocks| blocks as usize),
        total_blocks: TOTAL_BLOCKS,
        evict: Evict::LeastRecent,
        insert: match () {
            () if p.is("insert", "dispatch") => Insert::OnDispatch,
            () if p.is("insert", "answer") => Insert::OnAnswer,
            () => Insert::Both,
        },
        ttl: None,
    })
}

/// A parameter's program; `None` if it is off.
fn program(p: &Params, name: &str) -> Option<Program> {
    let text = p.text(name);
    (text != "off").then(|| Program::new(text).expect("parameters have been checked"))
}

/// Whether a text is a score.
fn score(text: &str) -> Result<(), TextError> {
    match Program::new(text)?.varies() {
        true => Ok(()),
        false => Err(parse::error(
            text,
            0,
            "no figure of a replica is in it, so all would be equal; name one, such as outstanding"
                .into(),
        )),
    }
}

/// Whether a text is an expression.
fn wait(text: &str) -> Result<(), TextError> {
    Program::new(text).map(|_| ())
}

struct Expression {
    score: Program,
    wait: Option<Program>,
}

impl Policy for Expression {
    fn pick(&self, view: &View<'_>, draw: &mut Rng) -> Pick {
        let eligible = Live { view, ids: view.eligible };
        let shared = shared(view);
        let mut registers = self.score.prepare(&shared, &eligible);
        let (lowest, replica) =
            self.lowest(&mut registers, &eligible, draw).expect("a view has a candidate");
        if let Some(wait) = &self.wait
            && view.may_wait
            && view.request.hops == 0
        {
            let full = Live { view, ids: view.full };
            if let Some((score, full)) = self.lowest(&mut registers, &full, draw) {
                let mut registers = wait.prepare(&shared, &eligible);
                let one = Live { view, ids: &[full] };
                if score + wait.scores(&mut registers, &one.batch(0))[0] < lowest {
                    return Pick::Wait;
                }
            }
        }
        Pick::scored(replica, f64::from(lowest))
    }

    fn features(&self) -> Features {
        let by_time = |program: &Program| program.names("waited_ms");
        let waits_for_room = !by_time(&self.score) && !self.wait.as_ref().is_some_and(by_time);
        Features { waits_for_room, ..Features::default() }
    }

    fn terms(&self, c: &CandidateRow, of: &Decision) -> Vec<(&str, f64)> {
        let eligible: Vec<&CandidateRow> =
            of.candidates.iter().filter(|c| c.ineligible.is_none()).collect();
        let shared = Shared {
            common: of.common,
            prompt_tokens: c.prompt_tokens as f32,
            candidates: eligible.len(),
        };
        let mut registers = self.score.prepare(&shared, &Recorded(&eligible));
        self.score.scores(&mut registers, &Recorded(&[c]).batch(0));
        self.score.terms(&registers)
    }
}

impl Expression {
    /// The lowest score among `candidates` and its replica; `None` if there are none.
    fn lowest(
        &self,
        registers: &mut Registers,
        candidates: &Live<'_>,
        draw: &mut Rng,
    ) -> Option<(f32, ReplicaId)> {
        let mut least = Least::new();
        for (nth, ids) in candidates.ids.chunks(LANES).enumerate() {
            let scores = self.score.scores(registers, &candidates.batch(nth * LANES));
            for (score, id) in scores.iter().zip(ids) {
                let score = if score.is_nan() { f32::INFINITY } else { *score };
                least.offer(score, *id, draw);
            }
        }
        least.get()
    }
}

fn shared(view: &View<'_>) -> Shared {
    Shared {
        common: view.common,
        prompt_tokens: view.request.prompt_tokens as f32,
        candidates: view.eligible.len(),
    }
}
