//! An expression as a list of operations, each with a register of its own.
//!
//! Equal parts of an expression become one operation. Operations that are the same for every
//! candidate run once a decision, and the others on [`LANES`] candidates at once, so that a decision
//! costs a few nanoseconds a candidate and allocates nothing:
//!
//! 1. `..shared`: the same for every candidate, without `min_of` and its like;
//! 2. `..folded`: what these need of each candidate, over all of them;
//! 3. `..settled`: the results of 2, and what follows from them, the same for every candidate;
//! 4. `..`: everything else.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use super::figures::{Batch, Candidates, FIGURES, LANES, Lanes, MATCHES, Read, Shared};
use super::ops::{Binary, Fold, Function, Unary, either};
use super::parse::{self, Kind, Node, error};
use crate::policy::TextError;

/// Most operations.
const MOST: usize = 128;

/// A register's number, which is that of its operation.
type Register = u8;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Op {
    Number(f32),
    Figure(u8),
    Unary(Unary, Register),
    Binary(Binary, Register, Register),
    If(Register, Register, Register),
    Fold(Fold, Register),
}

/// A compiled expression.
#[derive(Debug)]
pub(super) struct Program {
    ops: Vec<Op>,
    shared: usize,
    folded: usize,
    settled: usize,
    score: Register,
    terms: Vec<Term>,
    /// Whether the candidates' own figures are in it.
    varies: bool,
}

/// A summand of the expression.
#[derive(Debug)]
struct Term {
    text: String,
    register: Register,
    /// 1 or -1.
    sign: f32,
}

/// The registers of a decision.
pub(super) struct Registers([Lanes; MOST]);

impl Program {
    /// # Errors
    /// The first mistake in the text.
    pub(super) fn new(text: &str) -> Result<Program, TextError> {
        let node = parse::parse(text)?;
        let mut compiler = Compiler { text, made: Vec::new() };
        let score = compiler.node(&node)?;
        let mut terms = Vec::new();
        compiler.summands(&node, 1.0, &mut terms)?;
        Ok(compiler.sorted(score, terms))
    }

    /// Whether it may differ between candidates.
    pub(super) fn varies(&self) -> bool {
        self.varies
    }

    /// Whether it depends on the prompt's cached part.
    pub(super) fn matches(&self) -> bool {
        MATCHES.iter().any(|name| self.names(name))
    }

    /// Whether it names this figure.
    pub(super) fn names(&self, name: &str) -> bool {
        let is = |op: &Op| matches!(op, Op::Figure(at) if FIGURES[usize::from(*at)].name == name);
        self.ops.iter().any(is)
    }

    /// Computes what is the same for every candidate of a decision.
    pub(super) fn prepare(&self, shared: &Shared, candidates: &impl Candidates) -> Registers {
        let mut registers = Registers([[0.0; LANES]; MOST]);
        self.run(0..self.shared, &mut registers, |read| match read {
            Read::Shared(read) => [read(shared); LANES],
            Read::Own(_) => [0.0; LANES],
        });
        self.fold(&mut registers, candidates);
        self.run(self.folded..self.settled, &mut registers, |read| match read {
            Read::Shared(read) => [read(shared); LANES],
            Read::Own(_) => [0.0; LANES],
        });
        registers
    }

    /// The scores of several candidates.
    #[inline]
    pub(super) fn scores(&self, registers: &mut Registers, batch: &Batch<'_>) -> Lanes {
        self.own(self.shared..self.folded, registers, batch);
        self.own(self.settled..self.ops.len(), registers, batch);
        registers.0[usize::from(self.score)]
    }

    /// The summands of the first candidate of the newest [`Program::scores`], by their text.
    pub(super) fn terms(&self, registers: &Registers) -> Vec<(&str, f64)> {
        let value = |t: &Term| f64::from(t.sign * registers.0[usize::from(t.register)][0]);
        self.terms.iter().map(|term| (&*term.text, value(term))).collect()
    }

    /// Computes `min_of` and its like.
    fn fold(&self, registers: &mut Registers, candidates: &impl Candidates) {
        let folds = || {
            let settled = self.ops[self.folded..self.settled].iter().zip(self.folded..);
            settled.filter_map(|(op, at)| match op {
                Op::Fold(fold, of) => Some((at, *fold, usize::from(*of))),
                _ => None,
            })
        };
        if folds().next().is_none() {
            return;
        }
        folds().for_each(|(at, fold, _)| registers.0[at][0] = fold.start());
        let all = candidates.len();
        for first in (0..all).step_by(LANES) {
            self.own(self.shared..self.folded, registers, &candidates.batch(first));
            for (at, fold, of) in folds() {
                let some = registers.0[of];
                let some = &some[..LANES.min(all - first)];
                registers.0[at][0] = fold.add(registers.0[at][0], some);
            }
        }
        folds().for_each(|(at, fold, _)| {
            registers.0[at] = [fold.end(registers.0[at][0], all); LANES];
        });
    }

    #[inline]
    fn own(&self, ops: core::ops::Range<usize>, registers: &mut Registers, batch: &Batch<'_>) {
        self.run(ops, registers, |read| match read {
            Read::Own(read) => read(batch),
            Read::Shared(_) => [0.0; LANES],
        });
    }

    #[inline]
    fn run(
        &self,
        ops: core::ops::Range<usize>,
        registers: &mut Registers,
        read: impl Fn(Read) -> Lanes,
    ) {
        for at in ops {
            let of = |register: Register| &registers.0[usize::from(register)];
            registers.0[at] = match self.ops[at] {
                Op::Number(number) => [number; LANES],
                Op::Figure(figure) => read(FIGURES[usize::from(figure)].read),
                Op::Unary(unary, a) => unary.apply(of(a)),
                Op::Binary(binary, a, b) => binary.apply(of(a), of(b)),
                Op::If(condition, a, b) => either(of(condition), of(a), of(b)),
                // Computed by `fold`.
                Op::Fold(..) => continue,
            };
        }
    }
}

/// An operation in the order of the text.
struct Made {
    op: Op,
    /// Whether it differs between candidates.
    varies: bool,
    /// Whether it depends on a number over all candidates.
    late: bool,
    /// Whether such a number depends on it.
    folded: bool,
}

impl Made {
    /// The stage in which it runs; see the module.
    fn stage(&self) -> u8 {
        match (self.varies, self.late) {
            (false, false) => 0,
            (true, false) if self.folded => 1,
            (false, true) => 2,
            (true, _) => 3,
        }
    }
}

struct Compiler<'a> {
    text: &'a str,
    made: Vec<Made>,
}

impl Compiler<'_> {
    fn node(&mut self, node: &Node) -> Result<Register, TextError> {
        let op = match &node.kind {
            Kind::Number(number) => Op::Number(*number),
            Kind::Figure(figure) => Op::Figure(*figure),
            Kind::Negative(a) => Op::Unary(Unary::Negative, self.node(a)?),
            Kind::Not(a) => Op::Unary(Unary::Not, self.node(a)?),
            Kind::Binary(operator, a, b) => Op::Binary(*operator, self.node(a)?, self.node(b)?),
            Kind::Call(function, arguments) => self.call(node, *function, arguments)?,
        };
        self.add(op, node)
    }

    fn call(
        &mut self,
        node: &Node,
        function: Function,
        arguments: &[Node],
    ) -> Result<Op, TextError> {
        let all: Result<Vec<Register>, _> = arguments.iter().map(|one| self.node(one)).collect();
        let all = all?;
        Ok(match function {
            Function::Unary(unary) => Op::Unary(unary, all[0]),
            Function::If => Op::If(all[0], all[1], all[2]),
            Function::Fold(fold) => {
                if self.made[usize::from(all[0])].late {
                    let message = "a function over all replicas is inside another one; \
                                   use it outside of that";
                    return Err(error(self.text, node.at.start, message.to_owned()));
                }
                self.fold(all[0]);
                Op::Fold(fold, all[0])
            }
            Function::Binary(binary) => {
                let (mut left, last) = (all[0], all.len() - 1);
                for right in &all[1..last] {
                    left = self.add(Op::Binary(binary, left, *right), node)?;
                }
                Op::Binary(binary, left, all[last])
            }
        })
    }

    /// The register of an operation, which an equal one may have already.
    fn add(&mut self, op: Op, node: &Node) -> Result<Register, TextError> {
        if let Some(at) = self.made.iter().position(|made| made.op == op) {
            return Ok(at as Register);
        }
        if self.made.len() == MOST {
            let message = format!("there are more than {MOST} operations; simplify");
            return Err(error(self.text, node.at.start, message));
        }
        let any = |of: fn(&Made) -> bool| operands(op).any(|a| of(&self.made[usize::from(a)]));
        let (varies, late) = match op {
            Op::Figure(at) => (matches!(FIGURES[usize::from(at)].read, Read::Own(_)), false),
            Op::Fold(..) => (false, true),
            _ => (any(|made| made.varies), any(|made| made.late)),
        };
        self.made.push(Made { op, varies, late, folded: false });
        Ok((self.made.len() - 1) as Register)
    }

    /// Notes that a number over all candidates depends on this operation.
    fn fold(&mut self, register: Register) {
        let made = &mut self.made[usize::from(register)];
        made.folded = true;
        let op = made.op;
        operands(op).for_each(|operand| self.fold(operand));
    }

    /// The summands of a sum.
    fn summands(&mut self, node: &Node, sign: f32, terms: &mut Vec<Term>) -> Result<(), TextError> {
        match &node.kind {
            Kind::Binary(Binary::Plus, a, b) => {
                self.summands(a, sign, terms)?;
                self.summands(b, sign, terms)
            }
            Kind::Binary(Binary::Minus, a, b) => {
                self.summands(a, sign, terms)?;
                self.summands(b, -sign, terms)
            }
            Kind::Negative(a) => self.summands(a, -sign, terms),
            _ => {
                let words = self.text[node.at.clone()].split_whitespace().collect::<Vec<_>>();
                let text = words.join(" ");
                let text = if sign < 0.0 { format!("-{text}") } else { text };
                terms.push(Term { text, register: self.node(node)?, sign });
                Ok(())
            }
        }
    }

    /// The program: operations by their stage, and within one in the order of the text.
    fn sorted(self, score: Register, mut terms: Vec<Term>) -> Program {
        let mut order: Vec<usize> = (0..self.made.len()).collect();
        order.sort_by_key(|at| self.made[*at].stage());
        let mut place = vec![0; order.len()];
        order.iter().enumerate().for_each(|(new, old)| place[*old] = new as Register);
        let moved = |register: Register| place[usize::from(register)];
        let ops = order.iter().map(|at| match self.made[*at].op {
            op @ (Op::Number(_) | Op::Figure(_)) => op,
            Op::Unary(unary, a) => Op::Unary(unary, moved(a)),
            Op::Binary(binary, a, b) => Op::Binary(binary, moved(a), moved(b)),
            Op::If(condition, a, b) => Op::If(moved(condition), moved(a), moved(b)),
            Op::Fold(fold, a) => Op::Fold(fold, moved(a)),
        });
        let until = |stage: u8| self.made.iter().filter(|made| made.stage() <= stage).count();
        terms.iter_mut().for_each(|term| term.register = moved(term.register));
        Program {
            ops: ops.collect(),
            shared: until(0),
            folded: until(1),
            settled: until(2),
            score: moved(score),
            terms,
            varies: self.made[usize::from(score)].varies,
        }
    }
}

/// The registers that an operation reads.
fn operands(op: Op) -> impl Iterator<Item = Register> {
    let all = match op {
        Op::Number(_) | Op::Figure(_) => [None; 3],
        Op::Unary(_, a) | Op::Fold(_, a) => [Some(a), None, None],
        Op::Binary(_, a, b) => [Some(a), Some(b), None],
        Op::If(condition, a, b) => [Some(condition), Some(a), Some(b)],
    };
    all.into_iter().flatten()
}
