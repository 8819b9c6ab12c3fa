//! The operators and functions of an expression.

use core::ops::RangeInclusive;

use super::figures::Lanes;

/// An operation on one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unary {
    Negative,
    Not,
    Abs,
    Floor,
    Sqrt,
    Exp,
    Ln,
}

/// An operation on two numbers. Conditions are 1 or 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Binary {
    Or,
    And,
    Less,
    AtMost,
    More,
    AtLeast,
    Equal,
    Unequal,
    Plus,
    Minus,
    Times,
    Over,
    Min,
    Max,
    Power,
}

/// A number over all eligible candidates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fold {
    Min,
    Max,
    Sum,
    Mean,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Function {
    Unary(Unary),
    /// Of two arguments or more, from the left.
    Binary(Binary),
    If,
    Fold(Fold),
}

/// A function that an expression may call.
pub struct Known {
    /// Its name.
    pub name: &'static str,
    /// How it is written.
    pub form: &'static str,
    /// What it gives.
    pub doc: &'static str,
    pub(super) arity: RangeInclusive<usize>,
    pub(super) function: Function,
}

const fn function(
    name: &'static str,
    form: &'static str,
    doc: &'static str,
    arity: RangeInclusive<usize>,
    function: Function,
) -> Known {
    Known { name, form, doc, arity, function }
}

/// Every function.
pub static FUNCTIONS: &[Known] = &[
    function("min", "min(a, b, ...)", "the least", 2..=8, Function::Binary(Binary::Min)),
    function("max", "max(a, b, ...)", "the largest", 2..=8, Function::Binary(Binary::Max)),
    function("abs", "abs(a)", "without its sign", 1..=1, Function::Unary(Unary::Abs)),
    function(
        "if",
        "if(condition, a, b)",
        "a if the condition is not 0, else b",
        3..=3,
        Function::If,
    ),
    function("floor", "floor(a)", "rounded down", 1..=1, Function::Unary(Unary::Floor)),
    function("sqrt", "sqrt(a)", "square root", 1..=1, Function::Unary(Unary::Sqrt)),
    function("exp", "exp(a)", "e to the power of a", 1..=1, Function::Unary(Unary::Exp)),
    function("ln", "ln(a)", "natural logarithm", 1..=1, Function::Unary(Unary::Ln)),
    function("pow", "pow(a, b)", "a to the power of b", 2..=2, Function::Binary(Binary::Power)),
    function(
        "min_of",
        "min_of(a)",
        "the least a of the eligible",
        1..=1,
        Function::Fold(Fold::Min),
    ),
    function("max_of", "max_of(a)", "the largest", 1..=1, Function::Fold(Fold::Max)),
    function("sum_of", "sum_of(a)", "their sum", 1..=1, Function::Fold(Fold::Sum)),
    function("mean_of", "mean_of(a)", "their mean", 1..=1, Function::Fold(Fold::Mean)),
];

impl Binary {
    /// How tightly `not` and a minus sign bind.
    pub(super) const NOT: u8 = 3;
    pub(super) const NEGATIVE: u8 = 7;

    /// The operator that is written like this.
    pub(super) fn of(word: &str) -> Option<Binary> {
        Some(match word {
            "or" => Binary::Or,
            "and" => Binary::And,
            "<" => Binary::Less,
            "<=" => Binary::AtMost,
            ">" => Binary::More,
            ">=" => Binary::AtLeast,
            "==" => Binary::Equal,
            "!=" => Binary::Unequal,
            "+" => Binary::Plus,
            "-" => Binary::Minus,
            "*" => Binary::Times,
            "/" => Binary::Over,
            _ => return None,
        })
    }

    /// How tightly it binds.
    pub(super) fn power(self) -> u8 {
        match self {
            Binary::Or => 1,
            Binary::And => 2,
            Binary::Plus | Binary::Minus => 5,
            Binary::Times | Binary::Over => 6,
            Binary::Min | Binary::Max | Binary::Power => 8,
            _ => 4,
        }
    }

    pub(super) fn compares(self) -> bool {
        self.power() == 4
    }

    #[inline]
    pub(super) fn apply(self, a: &Lanes, b: &Lanes) -> Lanes {
        let flag = |yes: bool| if yes { 1.0 } else { 0.0 };
        match self {
            Binary::Or => both(a, b, |a, b| flag(a != 0.0 || b != 0.0)),
            Binary::And => both(a, b, |a, b| flag(a != 0.0 && b != 0.0)),
            Binary::Less => both(a, b, |a, b| flag(a < b)),
            Binary::AtMost => both(a, b, |a, b| flag(a <= b)),
            Binary::More => both(a, b, |a, b| flag(a > b)),
            Binary::AtLeast => both(a, b, |a, b| flag(a >= b)),
            Binary::Equal => both(a, b, |a, b| flag(a == b)),
            Binary::Unequal => both(a, b, |a, b| flag(a != b)),
            Binary::Plus => both(a, b, |a, b| a + b),
            Binary::Minus => both(a, b, |a, b| a - b),
            Binary::Times => both(a, b, |a, b| a * b),
            Binary::Over => both(a, b, |a, b| a / b),
            Binary::Min => both(a, b, f32::min),
            Binary::Max => both(a, b, f32::max),
            Binary::Power => both(a, b, libm::powf),
        }
    }
}

#[inline(always)]
fn both(a: &Lanes, b: &Lanes, of: impl Fn(f32, f32) -> f32) -> Lanes {
    core::array::from_fn(|lane| of(a[lane], b[lane]))
}

impl Unary {
    #[inline]
    pub(super) fn apply(self, a: &Lanes) -> Lanes {
        match self {
            Unary::Negative => a.map(|a| -a),
            Unary::Not => a.map(|a| if a == 0.0 { 1.0 } else { 0.0 }),
            Unary::Abs => a.map(libm::fabsf),
            Unary::Floor => a.map(libm::floorf),
            Unary::Sqrt => a.map(libm::sqrtf),
            Unary::Exp => a.map(libm::expf),
            Unary::Ln => a.map(libm::logf),
        }
    }
}

/// `a` where the condition is not 0, else `b`.
#[inline]
pub(super) fn either(condition: &Lanes, a: &Lanes, b: &Lanes) -> Lanes {
    core::array::from_fn(|lane| if condition[lane] != 0.0 { a[lane] } else { b[lane] })
}

impl Fold {
    /// Before the first candidate.
    pub(super) fn start(self) -> f32 {
        match self {
            Fold::Min => f32::INFINITY,
            Fold::Max => f32::NEG_INFINITY,
            Fold::Sum | Fold::Mean => 0.0,
        }
    }

    #[inline]
    pub(super) fn add(self, sum: f32, some: &[f32]) -> f32 {
        match self {
            Fold::Min => some.iter().copied().fold(sum, f32::min),
            Fold::Max => some.iter().copied().fold(sum, f32::max),
            Fold::Sum | Fold::Mean => some.iter().fold(sum, |sum, one| sum + one),
        }
    }

    /// Over no candidate it is 0.
    pub(super) fn end(self, sum: f32, candidates: usize) -> f32 {
        match self {
            _ if candidates == 0 => 0.0,
            Fold::Mean => sum / candidates as f32,
            _ => sum,
        }
    }
}
