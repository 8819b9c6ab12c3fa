//! A topology from what its servers say about themselves.
//!
//! Each server runs a small script ([`COLLECT`]), which prints what `nvidia-smi`, NCCL and the kernel
//! know. Servers that are equal are grouped. The switches between servers are visible to none of
//! them: the caller states them, or the file has an assumption, written in it as a comment.
//!
//! It runs nothing and reads no file: texts in, text out.

mod cards;
mod gpus;
mod group;
mod parts;
mod server;

use crate::import::TopologySpec;
use crate::problem::Problems;
use crate::units::Rate;

/// The script that servers run; it needs a POSIX shell, and only reads.
pub const COLLECT: &str = include_str!("discover/collect.sh");

/// What a server said.
#[derive(Clone, Copy, Debug)]
pub struct Given<'a> {
    /// Its host name.
    pub server: &'a str,
    /// What the script printed there.
    pub said: &'a str,
    /// A dump of NCCL made there; empty without one.
    pub nccl: &'a str,
}

/// What the caller states, as no server knows it.
#[derive(Clone, Debug, Default)]
pub struct Asked {
    /// The name of the topology.
    pub name: Option<String>,
    /// The kind of GPU, in place of the product that servers report.
    pub gpu: Option<String>,
    /// The rate of cards whose rate the kernel does not know.
    pub card_rate: Option<Rate>,
    /// Cards to leave out, by name.
    pub leave_out: Vec<String>,
    /// The servers of each unit; all in one if there is none.
    pub units: Vec<Vec<String>>,
    /// Access switches of each unit.
    pub access: Option<u32>,
    /// Core switches.
    pub core: Option<u32>,
    /// Rate of an access switch's cards over the rate of its uplinks.
    pub oversubscription: Option<f64>,
}

/// A topology with what to know about it.
#[derive(Clone, Debug, PartialEq)]
pub struct Discovered {
    /// The topology.
    pub spec: TopologySpec,
    /// What was assumed or left out, each a sentence without its end.
    pub notes: Vec<String>,
    /// Where sources differ.
    pub conflicts: Vec<String>,
}

impl Discovered {
    /// The file, with notes and conflicts as comments at its start.
    #[must_use]
    pub fn print(&self) -> String {
        // A line end in a server's words would end the comment.
        let plain = |text: &String| -> String { text.replace(char::is_control, " ") };
        let mut text = String::from("# Written by `meridian plan discover`.\n");
        for conflict in &self.conflicts {
            text.push_str(&format!("# conflict: {}\n", plain(conflict)));
        }
        for note in &self.notes {
            text.push_str(&format!("# {}\n", plain(note)));
        }
        text + &self.spec.print()
    }
}

/// Makes a topology of servers.
///
/// # Errors
///
/// Everything that keeps a server from being described, of all servers at once, and options that
/// don't fit them.
pub fn discover(given: &[Given<'_>], asked: &Asked) -> Result<Discovered, Problems> {
    let mut found = Problems(Vec::new());
    let mut servers = Vec::new();
    for one in given {
        match server::server(one, asked) {
            Ok(server) => servers.push((one.server, server)),
            Err(problems) => found.0.extend(problems.0),
        }
    }
    let remedy = "name hosts with --ssh, or give a folder with a file for each server";
    found.unless(!given.is_empty(), "servers", "none", remedy);
    for card in &asked.leave_out {
        let is_there = |line: &str| line.split('\t').nth(1).is_some_and(|name| name.trim() == card);
        let there = given.iter().any(|one| one.said.lines().any(is_there));
        found.unless(there, "--leave-out", card, "no server has it; give the name of a card");
    }
    found.or(())?;
    group::grouped(&servers, asked)
}

#[cfg(test)]
mod tests;
