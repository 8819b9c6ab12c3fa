//! Finds the events of a stream that may have a member that few events have: `usage`,
//! `timings`, `tool_calls` and `error`.
//!
//! Pieces with several events are searched once for each member, not once for each event.

use std::ops::Range;
use std::sync::LazyLock;

use memchr::memmem::Finder;

static USAGE: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"\"usage\""));
static TIMINGS: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"\"timings\""));
static TOOL_CALLS: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"\"tool_calls\""));
/// Also the word in `"object": "error"` and `"finish_reason": "error"`.
static ERROR: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"\"error\""));

/// The search of some bytes, from their start to their end.
pub(super) struct RareMembers<'a> {
    bytes: &'a [u8],
    usage: RarePlace,
    timings: RarePlace,
    tool_calls: RarePlace,
    error: RarePlace,
}

/// The members that an event may have. Without one of them it has no such member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) usage: bool,
    pub(super) timings: bool,
    pub(super) tool_calls: bool,
    pub(super) error: bool,
}

/// The first place of a member at or after the last event.
#[derive(Clone, Copy)]
enum RarePlace {
    Unknown,
    At(usize),
    Nowhere,
}

impl<'a> RareMembers<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> RareMembers<'a> {
        let unknown = RarePlace::Unknown;
        RareMembers { bytes, usage: unknown, timings: unknown, tool_calls: unknown, error: unknown }
    }

    /// The members in an event. Events come in their order.
    pub(super) fn within(&mut self, event: Range<usize>) -> Found {
        let bytes = self.bytes;
        let is_inside = event.start <= event.end && event.end <= bytes.len();
        assert!(is_inside, "an event is a part of the bytes that are searched");
        Found {
            usage: self.usage.is_within(&USAGE, bytes, &event),
            timings: self.timings.is_within(&TIMINGS, bytes, &event),
            tool_calls: self.tool_calls.is_within(&TOOL_CALLS, bytes, &event),
            error: self.error.is_within(&ERROR, bytes, &event),
        }
    }
}

impl RarePlace {
    fn is_within(&mut self, member: &Finder<'_>, bytes: &[u8], event: &Range<usize>) -> bool {
        let is_old = match *self {
            RarePlace::Unknown => true,
            RarePlace::At(at) => at < event.start,
            RarePlace::Nowhere => false,
        };
        if is_old {
            let found = member.find(&bytes[event.start..]);
            *self = found.map_or(RarePlace::Nowhere, |at| RarePlace::At(event.start + at));
        }
        matches!(*self, RarePlace::At(at) if at < event.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Each event is judged as if it were searched alone.
    #[test]
    fn events_are_judged_apart() {
        let events =
            ["a", "\"usage\"", "\"timings\" \"usage\"", "", "\"tool_calls\"", "\"error\"", "b"];
        let bytes = events.concat();
        let mut members = RareMembers::new(bytes.as_bytes());
        let mut start = 0;
        for event in events {
            let end = start + event.len();
            let expected = Found {
                usage: event.contains("\"usage\""),
                timings: event.contains("\"timings\""),
                tool_calls: event.contains("\"tool_calls\""),
                error: event.contains("\"error\""),
            };
            assert_eq!(members.within(start..end), expected, "{event}");
            start = end;
        }
    }
}
