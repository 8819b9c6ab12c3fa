//! The run loop of every world: what happens next, and in which order.
//!
//! Of one instant, transfers end first, then events happen in the order in which they were caused,
//! and finally the transfers get new rates, once for all changes.

use meridian_base::Time;

use crate::queue::EventQueue;

/// A network whose transfers end when their bytes are through.
pub(crate) trait Carrier {
    /// A transfer that has ended.
    type End;

    /// When it next has something to do, at its current rates.
    fn due(&mut self) -> Option<Time>;

    /// The next transfer that has ended by `now`.
    fn ended(&mut self, now: Time) -> Option<Self::End>;

    /// Recomputes the rates after the changes of an instant.
    fn settle(&mut self, now: Time);
}

/// A world with events and transfers.
pub(crate) trait World {
    /// Something that happens at a known time.
    type Event;
    /// The network.
    type Carrier: Carrier;

    /// The events to come, and the network.
    fn ahead(&mut self) -> (&mut EventQueue<Self::Event>, &mut Self::Carrier);

    /// A transfer has ended.
    fn transferred(&mut self, now: Time, end: <Self::Carrier as Carrier>::End);

    /// An event happens.
    fn happen(&mut self, now: Time, event: Self::Event);

    /// The next instant at which there is something to do.
    fn next(&mut self) -> Option<Time> {
        let (queue, carrier) = self.ahead();
        let due = carrier.due().map(|at| queue.rounded(at));
        [queue.next(), due].into_iter().flatten().min()
    }

    /// Does everything of an instant, and returns the number of ends and events.
    fn instant(&mut self, now: Time) -> u64 {
        let mut count = 0;
        while let Some(end) = self.ahead().1.ended(now) {
            self.transferred(now, end);
            count += 1;
        }
        while let Some(event) = self.ahead().0.pop_by(now) {
            self.happen(now, event);
            count += 1;
        }
        self.ahead().1.settle(now);
        count
    }

    /// Does everything up to `end`, or until there is nothing left to do.
    fn until(&mut self, end: Time) {
        while let Some(now) = self.next().filter(|now| *now <= end) {
            self.instant(now);
        }
    }
}
