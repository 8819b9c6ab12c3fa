//! Actions of clients: they start programs, send requests and receive answers.

use meridian_base::{Duration, RequestId};
use meridian_workload::{Day, Program};

use crate::event::Event;
use crate::flight::Flight;
use crate::scenario::Load;
use crate::world::World;

impl World {
    /// Adds the loads and starts them.
    pub(super) fn start_loads(&mut self, loads: Vec<Load>) {
        for load in loads {
            let (load, starts) = self.clients.add(load);
            for (client, start) in starts {
                self.queue.push(start, Event::Client { client });
            }
            self.draw_next(load);
        }
    }

    /// Draws the next program of an open load and schedules its start.
    fn draw_next(&mut self, load: u16) {
        if let Some(at) = self.clients.draw(load)
            && at < self.end
        {
            self.queue.push(at, Event::Next { load });
        }
    }

    pub(super) fn next_program(&mut self, load: u16) {
        let Some(program) = self.clients.drawn(load) else { return };
        self.start_program(load, None, program);
        self.draw_next(load);
    }

    pub(super) fn next_of_client(&mut self, client: u32) {
        if self.now >= self.end || !self.clients.has_more(client) {
            return;
        }
        if self.clients.sleeps(client, self.now) {
            self.queue.push(self.now + Day::NAP, Event::Client { client });
            return;
        }
        let (load, program) = self.clients.next_of(client, self.seed);
        self.start_program(load, Some(client), program);
    }

    fn start_program(&mut self, load: u16, client: Option<u32>, program: Program) {
        let program = self.clients.begin(load, client, program);
        self.go_on(program);
    }

    /// Sends the requests of a program that may be sent now; ends it when none is left. After the
    /// measured time, programs stop where they are.
    fn go_on(&mut self, program: u32) {
        while self.now < self.end {
            let Some((node, think)) = self.clients.take(program) else { break };
            match think {
                Duration::ZERO => self.send(program, node),
                _ => self.queue.push(self.now + think, Event::Send { program, node }),
            }
        }
        if let Some(client) = self.clients.end_if_over(program) {
            self.next_of_client(client);
        }
    }

    /// A client sends one request to its gateway.
    pub(super) fn send(&mut self, program: u32, node: u32) {
        if self.now >= self.end {
            return;
        }
        let request = self.clients.request(program, node, self.now, self.granularity);
        let Some(request) = request else { return };
        let id = self.flights.insert(Flight::new(request));
        self.enter(id);
    }

    /// The client has the whole answer, or learns that there will be none.
    pub(super) fn request_ended(&mut self, program: u32, node: u32, answered: bool) {
        if self.clients.ended(program, node, answered) {
            self.go_on(program);
        }
    }

    /// The regions that may serve a request; `None` for all.
    fn rule(&self, id: RequestId) -> Option<&[usize]> {
        let flight = self.flights.get(id)?;
        self.clients.may_run_in(flight.request().load)
    }

    /// Whether a region may serve a request.
    pub(super) fn permitted(&self, id: RequestId, region: usize) -> bool {
        self.rule(id).is_none_or(|regions| regions.contains(&region))
    }
}
