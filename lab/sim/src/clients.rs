//! Clients: their programs, and when they continue them.
//!
//! A table of loads, of the clients of closed loads, and of the programs in progress. It does not
//! know when a request arrives or ends: the world tells it, and schedules what it answers.

use std::sync::Arc;

use meridian_base::{Duration, Time, mix};
use meridian_workload::{Day, Generator, Piece, Program, ProgramKey, Reply, Segment, Walk};

use crate::granularity::Granularity;
use crate::request::{ClientRequest, RequestText};
use crate::rows::Rows;
use crate::scenario::{Load, Programs, Source};

/// The state of all clients.
#[derive(Default)]
pub(crate) struct Clients {
    loads: Vec<Sender>,
    closed: Vec<Client>,
    programs: Rows<Running>,
    /// The text of a prompt, while its blocks are computed.
    segments: Vec<Segment>,
}

/// One load of the scenario.
struct Sender {
    region: usize,
    may_run_in: Option<Vec<usize>>,
    /// The next program, for an open load.
    next: Option<(Time, Program)>,
    open: Option<Programs>,
}

/// A client of a closed load.
struct Client {
    load: u16,
    number: u32,
    /// Programs started.
    ordinal: u64,
    most: u64,
    generator: Arc<dyn Generator>,
    /// The day of its load, and how many clients that has.
    day: Option<(Day, u32)>,
}

/// A program in progress.
struct Running {
    load: u16,
    /// Its client, of a closed load.
    client: Option<u32>,
    walk: Walk<Reply>,
}

impl Clients {
    /// Adds a load. Returns its number, and when each client of a closed one starts.
    pub(crate) fn add(&mut self, load: Load) -> (u16, Vec<(u32, Time)>) {
        let at = u16::try_from(self.loads.len()).expect("a scenario has fewer than 65,536 loads");
        let (region, may_run_in) = (load.region, load.may_run_in);
        let mut sender = Sender { region, may_run_in, next: None, open: None };
        let mut starts = Vec::new();
        match load.source {
            Source::Closed { clients, generator, ramp, programs, day } => {
                for number in 0..clients {
                    starts.push((self.closed.len() as u32, Time::ZERO + ramp * number / clients));
                    let (most, generator) = (programs.unwrap_or(u64::MAX), generator.clone());
                    let day = day.map(|day| (day, clients));
                    self.closed.push(Client { load: at, number, ordinal: 0, most, generator, day });
                }
            }
            Source::Open(programs) => sender.open = Some(programs),
        }
        self.loads.push(sender);
        (at, starts)
    }

    /// The regions that may serve a load's requests; `None` for all.
    pub(crate) fn may_run_in(&self, load: u16) -> Option<&[usize]> {
        self.loads[usize::from(load)].may_run_in.as_deref()
    }

    /// Draws the next program of an open load. Returns when it starts.
    pub(crate) fn draw(&mut self, load: u16) -> Option<Time> {
        let sender = &mut self.loads[usize::from(load)];
        assert!(sender.next.is_none(), "load {load} has a program that has not started");
        sender.next = sender.open.as_mut().and_then(Iterator::next);
        sender.next.as_ref().map(|(at, _)| *at)
    }

    /// The drawn program of an open load, which starts.
    pub(crate) fn drawn(&mut self, load: u16) -> Option<Program> {
        self.loads[usize::from(load)].next.take().map(|(_, program)| program)
    }

    /// Whether a client has programs left.
    pub(crate) fn has_more(&self, client: u32) -> bool {
        let client = &self.closed[client as usize];
        client.ordinal < client.most
    }

    /// Whether a client starts no program now, because of the time of day.
    pub(crate) fn sleeps(&self, client: u32, now: Time) -> bool {
        let client = &self.closed[client as usize];
        let sleeps =
            |(day, clients): (Day, u32)| client.number >= day.awake(clients, now.since(Time::ZERO));
        client.day.is_some_and(sleeps)
    }

    /// The next program of a client, and its load.
    pub(crate) fn next_of(&mut self, client: u32, seed: u64) -> (u16, Program) {
        let client = &mut self.closed[client as usize];
        assert!(client.ordinal < client.most, "a client has no program left");
        let (load, ordinal) = (client.load, client.ordinal);
        client.ordinal += 1;
        let region = self.loads[usize::from(load)].region as u32;
        // Each load of a region has separate clients.
        let number = u32::from(load) << 16 | client.number;
        let key = ProgramKey { seed, region, client: number, ordinal };
        (load, client.generator.program(key))
    }

    /// A program starts. Returns its number, which is free again once it is over.
    pub(crate) fn begin(&mut self, load: u16, client: Option<u32>, program: Program) -> u32 {
        self.programs.enter(Running { load, client, walk: Walk::new(program) })
    }

    /// The next request of a program that may be sent, and how long its client thinks first.
    pub(crate) fn take(&mut self, program: u32) -> Option<(u32, Duration)> {
        let walk = &mut self.programs.get_mut(program)?.walk;
        let node = walk.take()?;
        Some((node as u32, walk.program().nodes[node].think))
    }

    /// Ends a program if all its requests have ended. Returns its client, of a closed load.
    pub(crate) fn end_if_over(&mut self, program: u32) -> Option<u32> {
        if self.programs.get(program).is_some_and(|running| running.walk.is_over()) {
            return self.programs.take(program)?.client;
        }
        None
    }

    /// A request of a program has ended. False if the program is over.
    pub(crate) fn ended(&mut self, program: u32, node: u32, answered: bool) -> bool {
        let Some(running) = self.programs.get_mut(program) else { return false };
        let node = node as usize;
        if answered {
            let reply = running.walk.program().reply(node);
            running.walk.answered(node, reply);
        } else {
            running.walk.failed(node);
        }
        true
    }

    /// A request of a program, sent at `sent`; `None` if the program is over.
    pub(crate) fn request(
        &mut self,
        program: u32,
        node: u32,
        sent: Time,
        granularity: Granularity,
    ) -> Option<ClientRequest> {
        let running = self.programs.get_mut(program)?;
        let text = {
            let reply = running.walk.program().reply(node as usize);
            self.segments.clear();
            let pieces = running.walk.prompt(node as usize);
            self.segments.extend(pieces.iter().flat_map(Piece::segments));
            RequestText::of(&mut self.segments, reply.segments(), granularity)
        };
        let of = running.walk.program();
        Some(ClientRequest {
            load: running.load,
            region: self.loads[usize::from(running.load)].region as u16,
            program,
            node,
            name: mix(of.key.id(), u64::from(node)),
            session: of.session,
            tenant: of.tenant,
            slo: of.slo,
            sent,
            text,
        })
    }
}

#[cfg(test)]
mod tests {
    use meridian_workload::Sessions;

    use super::*;

    fn closed(programs: Option<u64>) -> Clients {
        let mut clients = Clients::default();
        let source = Source::Closed {
            clients: 2,
            generator: Arc::new(Sessions::default()),
            ramp: Duration::from_secs(2),
            programs,
            day: None,
        };
        let (load, starts) = clients.add(Load { region: 1, source, may_run_in: Some(vec![1]) });
        assert_eq!((load, clients.may_run_in(load)), (0, Some(&[1][..])));
        assert_eq!(starts, [(0, Time::ZERO), (1, Time::from_millis(1000))]);
        clients
    }

    // A client of a closed load has as many programs as its load says, all different.
    #[test]
    fn clients_have_programs() {
        let mut clients = closed(Some(2));
        let (_, first) = clients.next_of(0, 7);
        assert!(clients.has_more(0) && !clients.sleeps(0, Time::ZERO));
        let (_, second) = clients.next_of(0, 7);
        assert!(!clients.has_more(0) && clients.has_more(1));
        let (_, other) = clients.next_of(1, 7);
        let names = [first.key.id(), second.key.id(), other.key.id()];
        assert!(names[0] != names[1] && names[1] != names[2] && names[0] != names[2]);
    }

    // A program's requests come one by one, each after the answer before; then its client is free,
    // and its number too.
    #[test]
    fn programs_run_to_their_end() {
        let mut clients = closed(None);
        let granularity = Granularity { block_bytes: 64, head_bytes: 0, follows: false };
        let (load, program) = clients.next_of(1, 7);
        let nodes = program.nodes.len();
        let slot = clients.begin(load, Some(1), program);
        let mut before = 0;
        for turn in 0..nodes as u32 {
            assert_eq!(clients.end_if_over(slot), None);
            let (node, _) = clients.take(slot).expect("an answer makes the next turn possible");
            assert_eq!((node, clients.take(slot)), (turn, None));
            let request = clients.request(slot, node, Time::ZERO, granularity).expect("it runs");
            assert_eq!((request.region, request.node), (1, node));
            assert!(request.text.prompt_tokens > before);
            before = request.text.prompt_tokens;
            assert!(clients.ended(slot, node, true));
        }
        assert_eq!(clients.end_if_over(slot), Some(1));
        assert!(clients.request(slot, 0, Time::ZERO, granularity).is_none());
        assert!(!clients.ended(slot, 0, true));
        let (load, program) = clients.next_of(0, 7);
        assert_eq!(clients.begin(load, None, program), slot);
    }

    // An open load's programs start one after another.
    #[test]
    fn open_loads_are_drawn() {
        let (_, program) = closed(None).next_of(0, 7);
        let mut clients = Clients::default();
        let programs = [(Time::from_millis(3), program.clone()), (Time::from_millis(5), program)];
        let source = Source::Open(Box::new(programs.into_iter()));
        let (load, starts) = clients.add(Load { region: 0, source, may_run_in: None });
        assert!(starts.is_empty());
        assert_eq!(clients.draw(load), Some(Time::from_millis(3)));
        assert!(clients.drawn(load).is_some() && clients.drawn(load).is_none());
        assert_eq!(clients.draw(load), Some(Time::from_millis(5)));
        assert!(clients.drawn(load).is_some());
        assert_eq!(clients.draw(load), None);
    }
}
