//! Stages: each takes one pass at a time, first come first served.
//!
//! A pass is a step on its way through a pipeline: a prompt, or one step of a decode lane for all
//! its requests.

use std::collections::VecDeque;

use meridian_base::Time;
use meridian_engine::Work;

/// An instance: its phase, and its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Home {
    Prefill(usize),
    Decode(usize),
    Mixed(usize),
}

/// A step on its way.
#[derive(Clone, Debug)]
pub(super) struct Pass {
    pub(super) home: Home,
    pub(super) stage: usize,
    pub(super) work: Work,
    /// When its all-reduces started.
    pub(super) joining: Option<Time>,
    pub(super) of: Of,
}

impl Pass {
    pub(super) fn new(home: Home, work: Work, of: Of) -> Pass {
        Pass { home, stage: 0, work, joining: None, of }
    }
}

/// The work of a pass: some requests' prompts, or a lane's next tokens.
#[derive(Clone, Debug)]
pub(super) enum Of {
    Prompts(Vec<usize>),
    Lane(usize),
}

/// The stages of one instance.
#[derive(Clone, Debug, Default)]
pub(super) struct Stages(Vec<One>);

#[derive(Clone, Debug, Default)]
struct One {
    busy: bool,
    queue: VecDeque<u32>,
}

impl Stages {
    pub(super) fn new(count: usize) -> Stages {
        Stages(vec![One::default(); count])
    }

    /// A pass arrives at a stage; returns whether it may start.
    pub(super) fn enter(&mut self, stage: usize, pass: u32) -> bool {
        let one = &mut self.0[stage];
        if one.busy {
            one.queue.push_back(pass);
            return false;
        }
        one.busy = true;
        true
    }

    /// The stage becomes free; returns the pass that starts now.
    pub(super) fn leave(&mut self, stage: usize) -> Option<u32> {
        let one = &mut self.0[stage];
        assert!(one.busy, "a pass leaves stage {stage}, which is free");
        let next = one.queue.pop_front();
        one.busy = next.is_some();
        next
    }

    /// Whether a pass could start at once.
    pub(super) fn is_free(&self, stage: usize) -> bool {
        !self.0[stage].busy
    }
}
