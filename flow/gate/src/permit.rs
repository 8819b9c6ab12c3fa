//! The right to send a chunk, and the transfer that has it.

use std::time::Duration;

use meridian_flow::{Level, PermitWhy, Why};

/// A transfer under way: a row and its generation, so that a handle of an earlier one is recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handle(u64);

/// The right to send a chunk.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Permit {
    /// Its bytes: at most those asked for, and at most a chunk.
    pub bytes: u32,
    /// The traffic class to send it with, 0 first.
    pub traffic: u8,
    /// Why now.
    pub why: PermitWhy,
    /// How long it waited.
    pub waited: Duration,
    /// The transfer's level, 0 first.
    pub level: Level,
    /// Why it has that level.
    pub placed: Option<Why>,
}

impl Permit {
    /// Everything that was asked for, without a gate.
    #[must_use]
    pub fn open(bytes: u32) -> Permit {
        let (why, waited, level) = (PermitWhy::FailOpen, Duration::ZERO, Level(0));
        Permit { bytes, traffic: 0, why, waited, level, placed: None }
    }
}

impl Handle {
    /// The generations of a row: a handle is never negative as a signed number.
    pub(crate) const GENERATIONS: u32 = u32::MAX >> 1;

    pub(crate) fn of(generation: u32, row: u32) -> Handle {
        assert!(generation <= Handle::GENERATIONS, "a handle is no negative number");
        Handle(u64::from(generation) << 32 | u64::from(row))
    }

    /// The handle as a number, and back.
    #[must_use]
    pub fn number(self) -> u64 {
        self.0
    }

    /// The handle of a number.
    #[must_use]
    pub fn from_number(number: u64) -> Handle {
        Handle(number)
    }

    pub(crate) fn row(self) -> u32 {
        self.0 as u32
    }

    pub(crate) fn generation(self) -> u32 {
        (self.0 >> 32) as u32
    }
}
