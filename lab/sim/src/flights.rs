//! The table of the requests in progress: one row each, with ids that are never reused.

use meridian_base::RequestId;

use crate::flight::Flight;

/// The rows.
#[derive(Debug, Default)]
pub(crate) struct Flights {
    rows: Vec<Row>,
    vacant: Vec<u32>,
    started: u64,
}

#[derive(Debug)]
struct Row {
    generation: u32,
    flight: Option<Box<Flight>>,
}

impl Flights {
    /// Number of requests in progress.
    pub(crate) fn len(&self) -> usize {
        self.rows.len() - self.vacant.len()
    }

    /// Number of requests started so far.
    pub(crate) fn started(&self) -> u64 {
        self.started
    }

    /// A request starts. Returns its id.
    pub(crate) fn insert(&mut self, flight: Flight) -> RequestId {
        let slot = self.vacant.pop().unwrap_or_else(|| {
            self.rows.push(Row { generation: 0, flight: None });
            self.rows.len() as u32 - 1
        });
        let row = &mut self.rows[slot as usize];
        assert!(row.flight.is_none(), "row {slot} is vacant, and has a request");
        row.flight = Some(Box::new(flight));
        self.started += 1;
        RequestId(u64::from(row.generation) << 32 | u64::from(slot))
    }

    /// `None` when the request has ended.
    pub(crate) fn get_mut(&mut self, id: RequestId) -> Option<&mut Flight> {
        let row = self.rows.get_mut(slot(id))?;
        if row.generation != generation(id) { None } else { row.flight.as_deref_mut() }
    }

    /// `None` when the request has ended.
    pub(crate) fn get(&self, id: RequestId) -> Option<&Flight> {
        let row = self.rows.get(slot(id))?;
        if row.generation != generation(id) { None } else { row.flight.as_deref() }
    }

    /// Ends a request; `None` when it has ended before.
    pub(crate) fn remove(&mut self, id: RequestId) -> Option<Box<Flight>> {
        let row = self.rows.get_mut(slot(id)).filter(|r| r.generation == generation(id))?;
        let flight = row.flight.take()?;
        row.generation = row.generation.wrapping_add(1);
        self.vacant.push(slot(id) as u32);
        assert!(self.vacant.len() <= self.rows.len(), "{id} ended, and so did more than started");
        Some(flight)
    }

    /// Ids of the requests for which `of` is true, in order of slots.
    pub(crate) fn ids(&self, of: impl Fn(&Flight) -> bool) -> Vec<RequestId> {
        let all = self.rows.iter().enumerate();
        all.filter(|(_, row)| row.flight.as_deref().is_some_and(&of))
            .map(|(at, row)| RequestId(u64::from(row.generation) << 32 | at as u64))
            .collect()
    }
}

fn slot(id: RequestId) -> usize {
    (id.0 & 0xFFFF_FFFF) as usize
}

fn generation(id: RequestId) -> u32 {
    (id.0 >> 32) as u32
}

#[cfg(test)]
mod tests {
    use meridian_base::Time;

    use super::*;
    use crate::flight::tests::flight;

    // A request ends once, and its id names no later one in the same row.
    #[test]
    fn ids_are_never_reused() {
        let mut flights = Flights::default();
        let first = flights.insert(flight(Time::ZERO));
        assert!(flights.get(first).is_some() && flights.remove(first).is_some());
        assert!(flights.get(first).is_none() && flights.remove(first).is_none());
        let second = flights.insert(flight(Time::ZERO));
        assert_ne!(first, second);
        assert!(flights.get(first).is_none() && flights.get_mut(second).is_some());
        assert_eq!((flights.len(), flights.started()), (1, 2));
    }

    // Those in progress are found in order of rows.
    #[test]
    fn found_in_order() {
        let mut flights = Flights::default();
        let ids: Vec<RequestId> = (0..4).map(|_| flights.insert(flight(Time::ZERO))).collect();
        flights.remove(ids[1]);
        flights.get_mut(ids[2]).expect("it is in progress").enter(7);
        assert_eq!(flights.ids(|f| f.entry() != 7), [ids[0], ids[3]]);
    }
}
