//! Actions of clients: they start programs, send requests and receive answers.

use meridian_base::{Duration, RequestId, Time, mix};
use meridian_workload::{
    BYTES_PER_TOKEN, Day, Piece, Program, ProgramKey, Segment, Walk, content_blocks,
};

use crate::clients::{Client, Running, Sender};
use crate::event::Event;
use crate::flight::Flight;
use crate::scenario::{Load, Source};
use crate::world::World;

/// Bytes of the blocks that engines cache.
const ENGINE_BLOCK_BYTES: u32 = meridian_engine::BLOCK_TOKENS * BYTES_PER_TOKEN;
/// Separates the texts of different models; one model has one scope.
const SCOPE: u64 = 0x4D4F_4445_4C00;

impl World {
    /// Adds the loads and starts them.
    pub(super) fn start_loads(&mut self, loads: Vec<Load>) {
        for (at, load) in loads.into_iter().enumerate() {
            let at = at as u16;
            let mut sender =
                Sender { region: load.region, may_run_in: load.may_run_in, next: None, open: None };
            match load.source {
                Source::Closed { clients, generator, ramp, programs, day } => {
                    for number in 0..clients {
                        let client = self.clients.closed.len() as u32;
                        let (most, generator) = (programs.unwrap_or(u64::MAX), generator.clone());
                        self.clients.closed.push(Client {
                            load: at,
                            number,
                            ordinal: 0,
                            most,
                            generator,
                            day: day.map(|day| (day, clients)),
                        });
                        let start = Time::ZERO + ramp * number / clients;
                        self.queue.push(start, Event::Client { client });
                    }
                }
                Source::Open(programs) => sender.open = Some(programs),
            }
            self.clients.loads.push(sender);
            self.draw_next(at);
        }
    }

    /// Draws the next program of an open load and schedules its start.
    fn draw_next(&mut self, load: u16) {
        let sender = &mut self.clients.loads[usize::from(load)];
        sender.next = sender.open.as_mut().and_then(Iterator::next);
        if let Some((at, _)) = &sender.next
            && *at < self.end
        {
            self.queue.push(*at, Event::Next { load });
        }
    }

    pub(super) fn next_program(&mut self, load: u16) {
        let Some((_, program)) = self.clients.loads[usize::from(load)].next.take() else { return };
        self.start_program(load, None, program);
        self.draw_next(load);
    }

    pub(super) fn next_of_client(&mut self, at: u32) {
        let seed = self.seed;
        let client = &mut self.clients.closed[at as usize];
        if self.now >= self.end || client.ordinal >= client.most {
            return;
        }
        if client.sleeps(self.now) {
            self.queue.push(self.now + Day::NAP, Event::Client { client: at });
            return;
        }
        let (load, ordinal) = (client.load, client.ordinal);
        client.ordinal += 1;
        let region = self.clients.loads[usize::from(load)].region as u32;
        // Each load of a region has separate clients.
        let number = u32::from(load) << 16 | client.number;
        let key = ProgramKey { seed, region, client: number, ordinal };
        let program = client.generator.program(key);
        self.start_program(load, Some(at), program);
    }

    fn start_program(&mut self, load: u16, client: Option<u32>, program: Program) {
        let running = Running { load, client, walk: Walk::new(program) };
        let slot = self.clients.vacant.pop().unwrap_or_else(|| {
            self.clients.programs.push(None);
            self.clients.programs.len() as u32 - 1
        });
        self.clients.programs[slot as usize] = Some(running);
        self.go_on(slot);
    }

    /// Sends the requests of a program that may be sent now; ends it when none is left. After the
    /// measured time, programs stop where they are.
    fn go_on(&mut self, slot: u32) {
        while self.now < self.end {
            let Some(running) = &mut self.clients.programs[slot as usize] else { return };
            let Some(node) = running.walk.take() else { break };
            let think = running.walk.program().nodes[node].think;
            let node = node as u32;
            match think {
                Duration::ZERO => self.send(slot, node),
                _ => self.queue.push(self.now + think, Event::Send { program: slot, node }),
            }
        }
        if self.clients.programs[slot as usize].as_ref().is_some_and(|r| r.walk.is_over()) {
            let running = self.clients.programs[slot as usize].take();
            self.clients.vacant.push(slot);
            if let Some(client) = running.and_then(|r| r.client) {
                self.next_of_client(client);
            }
        }
    }

    /// A client sends one request to its gateway.
    pub(super) fn send(&mut self, program: u32, node: u32) {
        if self.now >= self.end {
            return;
        }
        let Some(flight) = self.flight(program, node) else { return };
        let id = self.flights.insert(flight);
        self.enter(id);
    }

    fn flight(&mut self, slot: u32, node: u32) -> Option<Flight> {
        let now = self.now;
        let (granularity, region_of) = (self.granularity, &self.clients.loads);
        let running = self.clients.programs[slot as usize].as_mut()?;
        let program = running.walk.program();
        let (session, tenant, slo) = (program.session, program.tenant, program.slo);
        let name = mix(program.key.id(), u64::from(node));
        let reply = program.reply(node as usize);
        let segments = &mut self.clients.segments;
        segments.clear();
        let pieces = running.walk.prompt(node as usize);
        segments.extend(pieces.iter().flat_map(Piece::segments));
        let prompt_bytes: u32 = segments.iter().map(|s| s.bytes).sum();
        let own_blocks = (granularity.block_bytes != ENGINE_BLOCK_BYTES).then(|| {
            let mut own = Vec::new();
            content_blocks(segments.iter().copied(), granularity.block_bytes, SCOPE, &mut own);
            own
        });
        let head = match granularity.head_bytes {
            0 => 0,
            bytes => head(segments, bytes),
        };
        segments.extend_from_slice(reply.segments());
        let all_bytes: u32 = segments.iter().map(|s| s.bytes).sum();
        let reply_bytes = all_bytes - prompt_bytes;
        let mut blocks = Vec::with_capacity((all_bytes / ENGINE_BLOCK_BYTES) as usize);
        content_blocks(segments.iter().copied(), ENGINE_BLOCK_BYTES, SCOPE, &mut blocks);
        let load = running.load;
        Some(Flight {
            load,
            region: region_of[usize::from(load)].region as u16,
            program: slot,
            node,
            name,
            session,
            tenant,
            slo,
            sent: now,
            entry: 0,
            peer: None,
            replica: None,
            split: None,
            crossing: None,
            attempt: 0,
            prompt_tokens: prompt_bytes.div_ceil(BYTES_PER_TOKEN).max(1),
            reply_tokens: (reply_bytes / BYTES_PER_TOKEN).max(1),
            blocks,
            own_blocks,
            head,
            ending: false,
            streamed: false,
            first_token: None,
            held_since: None,
            held: Duration::ZERO,
            held_away: Duration::ZERO,
            sent_back: 0,
            cached: 0,
            matched: 0,
            dispatches: 0,
            forwarded: false,
            last_message: now,
        })
    }

    /// The client has the whole answer, or learns that there will be none.
    pub(super) fn request_ended(&mut self, program: u32, node: u32, answered: bool) {
        let Some(running) = &mut self.clients.programs[program as usize] else { return };
        let node = node as usize;
        if answered {
            let reply = running.walk.program().reply(node);
            running.walk.answered(node, reply);
        } else {
            running.walk.failed(node);
        }
        self.go_on(program);
    }

    /// The regions that may serve a request; `None` for all.
    pub(super) fn rule(&self, id: RequestId) -> Option<&[usize]> {
        let flight = self.flights.get(id)?;
        self.clients.loads[usize::from(flight.load)].may_run_in.as_deref()
    }

    /// Whether a region may serve a request.
    pub(super) fn permitted(&self, id: RequestId, region: usize) -> bool {
        self.rule(id).is_none_or(|regions| regions.contains(&region))
    }
}

/// Hash of the first `bytes` of a prompt.
fn head(segments: &[Segment], bytes: u32) -> u64 {
    let total: u32 = segments.iter().map(|s| s.bytes).sum();
    let mut out = Vec::new();
    content_blocks(segments.iter().copied(), bytes.min(total).max(1), SCOPE, &mut out);
    out.first().copied().unwrap_or(0)
}
