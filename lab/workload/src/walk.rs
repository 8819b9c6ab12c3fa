//! A walk through a program: the requests that may be sent now, and their prompts.
//!
//! A level starts when every node of the level above has ended, as in a tree-of-thoughts search
//! that evaluates all thoughts of a step before the next; on a path this means one turn after the
//! other. When a node fails, the nodes below it are lost too: a prompt with a gap would not share
//! its prefix with any other, and all policies would look the same.

use std::collections::VecDeque;

use crate::{Program, Reply, Role, Segment};

/// A piece of a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece<'a, R> {
    /// Text from the program.
    Text(Segment),
    /// The reply to an earlier request.
    Reply(&'a R),
}

impl<R> Piece<'_, R> {
    /// The speaker of the piece.
    #[must_use]
    pub fn role(&self) -> Role {
        match self {
            Piece::Text(segment) => segment.role,
            Piece::Reply(_) => Role::Assistant,
        }
    }
}

impl Piece<'_, Reply> {
    /// Its segments, if replies are the program's own.
    #[must_use]
    pub fn segments(&self) -> &[Segment] {
        match self {
            Piece::Text(segment) => std::slice::from_ref(segment),
            Piece::Reply(reply) => reply.segments(),
        }
    }
}

#[derive(Clone, Debug)]
enum WalkState<R> {
    Waiting,
    Sent,
    Answered(R),
    Lost,
}

/// The state of one program: replies `R` so far, and the requests to send next.
#[derive(Clone, Debug)]
pub struct Walk<R> {
    program: Program,
    states: Vec<WalkState<R>>,
    ready: VecDeque<usize>,
    level: u32,
    sent: usize,
    lost: usize,
}

impl<R> Walk<R> {
    /// A walk that starts at the roots of `program`.
    #[must_use]
    pub fn new(program: Program) -> Walk<R> {
        let states = program.nodes.iter().map(|_| WalkState::Waiting).collect();
        let mut walk = Walk { program, states, ready: VecDeque::new(), level: 0, sent: 0, lost: 0 };
        walk.open_level();
        walk
    }

    /// The program walked.
    #[must_use]
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// The next request that may be sent now, if any. It counts as sent from here on: report it
    /// with [`answered`](Self::answered) or [`failed`](Self::failed).
    pub fn take(&mut self) -> Option<usize> {
        let node = self.ready.pop_front()?;
        self.states[node] = WalkState::Sent;
        self.sent += 1;
        Some(node)
    }

    /// Records the reply to `node`.
    pub fn answered(&mut self, node: usize, reply: R) {
        self.end(node, WalkState::Answered(reply));
    }

    /// Records that `node` failed. The nodes below it are lost.
    pub fn failed(&mut self, node: usize) {
        self.end(node, WalkState::Lost);
    }

    /// Whether there is nothing left to send or to wait for.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.sent == 0 && self.ready.is_empty()
    }

    /// Requests that were never sent because one above them failed.
    #[must_use]
    pub fn lost(&self) -> usize {
        self.lost
    }

    /// The prompt of `node`: the additions of every node from the root down to it, with replies in
    /// between.
    #[must_use]
    pub fn prompt(&self, node: usize) -> Vec<Piece<'_, R>> {
        let mut path = vec![node];
        while let Some(parent) = self.program.nodes[path[path.len() - 1]].parent {
            path.push(parent);
        }
        let mut pieces = Vec::new();
        for &at in path.iter().rev() {
            pieces.extend(self.program.nodes[at].adds.iter().map(|s| Piece::Text(*s)));
            if let WalkState::Answered(reply) = &self.states[at] {
                pieces.push(Piece::Reply(reply));
            }
        }
        pieces
    }

    fn end(&mut self, node: usize, state: WalkState<R>) {
        assert!(matches!(self.states[node], WalkState::Sent), "node {node} is not on its way");
        self.states[node] = state;
        self.sent -= 1;
        if self.is_over() {
            self.level += 1;
            self.open_level();
        }
    }

    /// Makes the nodes of the current level ready, and drops those whose parent is lost.
    fn open_level(&mut self) {
        for (i, node) in self.program.nodes.iter().enumerate() {
            if node.level != self.level {
                continue;
            }
            if node.parent.is_some_and(|p| matches!(self.states[p], WalkState::Lost)) {
                self.states[i] = WalkState::Lost;
                self.lost += 1;
            } else {
                self.ready.push_back(i);
            }
        }
        let deepest = self.program.nodes.last().map_or(0, |n| n.level);
        if self.ready.is_empty() && self.level < deepest {
            self.level += 1;
            self.open_level();
        }
    }
}

#[cfg(test)]
mod tests;
