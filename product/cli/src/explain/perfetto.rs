//! The times of requests in the trace event format, which <https://ui.perfetto.dev> opens.
//!
//! The gateway is a process of the trace, and so is each replica and each peer. Requests overlap, and
//! the slices of one track must not, so a process has as many tracks as it had requests at once. An
//! arrow leads from an attempt to the work at its replica, and from a prefill leg to its decode leg.

use std::collections::BTreeMap;

use meridian_protocol::admin::{RequestTimes, SpanTimes, Times};
use serde_json::{Map, Value, json};

/// The number of the gateway's process; those of replicas and peers follow.
const GATEWAY: usize = 1;

/// The JSON of a trace.
pub(super) fn trace(times: &Times) -> String {
    let began = times.requests.iter().map(|request| request.at_us).min().unwrap_or_default();
    let mut drawing = Drawing { began, ..Drawing::default() };
    let gateway = drawing.process(format!("gateway {}", times.region));
    assert_eq!(gateway, GATEWAY, "the gateway is the first process");
    for request in &times.requests {
        drawing.request(request);
    }
    let trace = json!({
        "displayTimeUnit": "ms",
        "otherData": { "region": times.region, "began_us": began },
        "traceEvents": drawing.events(),
    });
    trace.to_string()
}

/// Slices that are drawn in one track: the first contains the others.
struct Block {
    process: usize,
    slices: Vec<Slice>,
}

/// A slice; times are nanoseconds since the first request arrived.
struct Slice {
    name: String,
    from: u64,
    to: u64,
    args: Map<String, Value>,
    /// Arrows that begin and end here.
    arrows: Vec<(u64, Tip)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Tip {
    Begin,
    End,
}

#[derive(Default)]
struct Drawing {
    /// The arrival of the first request.
    began: u64,
    /// Names of processes, and their numbers.
    processes: Vec<String>,
    known: BTreeMap<String, usize>,
    blocks: Vec<Block>,
    arrows: u64,
}

/// Where a span is drawn: its block, and its slice there.
type Drawn = (usize, usize);

impl Drawing {
    fn process(&mut self, name: String) -> usize {
        let number = *self.known.entry(name.clone()).or_insert_with(|| {
            self.processes.push(name);
            self.processes.len()
        });
        assert_eq!(self.known.len(), self.processes.len(), "each process has one number");
        number
    }

    fn request(&mut self, request: &RequestTimes) {
        let at = request.at_us.saturating_sub(self.began).saturating_mul(1000);
        // Where the span's children go, by its index.
        let mut drawn: Vec<Drawn> = Vec::with_capacity(request.spans.len());
        let mut prefill: Option<Drawn> = None;
        for span in &request.spans {
            let parent = span.parent.and_then(|parent| drawn.get(parent).copied());
            let mut slice = slice(span, at);
            let Some(parent) = parent else {
                slice
                    .args
                    .extend(request.id.as_ref().map(|id| ("id".to_owned(), id.as_str().into())));
                drawn.push(self.block(GATEWAY, slice));
                continue;
            };
            let is_attempt = span.is_call && span.parent == Some(0);
            let own =
                if is_attempt || !span.is_call { Some(self.within(parent, slice)) } else { None };
            let Some(place) = span.place.as_ref().filter(|_| span.is_call) else {
                drawn.push(own.unwrap_or(parent));
                continue;
            };
            let kind =
                if span.attributes.contains_key("meridian.peer") { "peer" } else { "replica" };
            let process = self.process(format!("{kind} {place}"));
            let there = self.block(process, self::slice(span, at));
            let is_decode = span.name == "decode";
            self.arrow(if is_decode { prefill.take() } else { own.or(Some(parent)) }, there);
            prefill = (!is_attempt && !is_decode).then_some(there);
            drawn.push(there);
        }
        assert_eq!(drawn.len(), request.spans.len(), "a parent is found by its index");
    }

    fn block(&mut self, process: usize, slice: Slice) -> Drawn {
        self.blocks.push(Block { process, slices: vec![slice] });
        (self.blocks.len() - 1, 0)
    }

    /// Draws a slice in the block of its parent, between the parent's ends and after its siblings.
    fn within(&mut self, (block, parent): Drawn, mut slice: Slice) -> Drawn {
        let slices = &mut self.blocks[block].slices;
        let (least, most) = (slices[parent].from, slices[parent].to);
        // What was drawn after the parent and is no ancestor has ended by then.
        let before = slices.iter().skip(parent + 1).map(|other| other.to).max().unwrap_or(least);
        slice.from = slice.from.clamp(before.min(most), most);
        slice.to = slice.to.clamp(slice.from, most);
        slices.push(slice);
        (block, slices.len() - 1)
    }

    fn arrow(&mut self, from: Option<Drawn>, to: Drawn) {
        let Some(from) = from else { return };
        let begins = |(block, slice): Drawn| self.blocks[block].slices[slice].from;
        // No arrow goes back in time.
        if begins(from) > begins(to) {
            return;
        }
        self.arrows += 1;
        for ((block, slice), tip) in [(from, Tip::Begin), (to, Tip::End)] {
            self.blocks[block].slices[slice].arrows.push((self.arrows, tip));
        }
    }

    fn events(mut self) -> Vec<Value> {
        self.blocks.sort_by_key(|block| block.slices[0].from);
        let mut events: Vec<Value> = Vec::new();
        for (at, name) in self.processes.iter().enumerate() {
            let pid = at + 1;
            events.push(json!({"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": name}}));
            events.push(json!({"ph": "M", "name": "process_sort_index", "pid": pid, "tid": 0, "args": {"sort_index": pid}}));
        }
        // The end of the newest block in each track, by process.
        let mut tracks: BTreeMap<usize, Vec<u64>> = BTreeMap::new();
        let mut timed: Vec<(u64, Value)> = Vec::new();
        for Block { process, slices } in self.blocks {
            let ends = tracks.entry(process).or_default();
            let (from, to) = (slices[0].from, slices[0].to);
            let last = slices.iter().map(|slice| slice.to).max();
            assert!(last <= Some(to), "the first slice of a block contains the others");
            let track = ends.iter().position(|end| *end <= from).unwrap_or(ends.len());
            if track == ends.len() {
                ends.push(to);
                events.push(json!({"ph": "M", "name": "thread_name", "pid": process, "tid": track + 1, "args": {"name": format!("track {}", track + 1)}}));
            }
            ends[track] = to;
            for slice in slices {
                draw(slice, (process, track + 1), &mut timed);
            }
        }
        // Stable, so that a slice stays before those within it.
        timed.sort_by_key(|(at, _)| *at);
        events.extend(timed.into_iter().map(|(_, event)| event));
        events
    }
}

fn slice(span: &SpanTimes, at: u64) -> Slice {
    let ns = |us: f64| at.saturating_add((us * 1e3).round() as u64);
    let mut args = span.attributes.clone();
    args.extend(span.error.as_ref().map(|error| ("error".to_owned(), error.as_str().into())));
    let (from, to) = (ns(span.from_us), ns(span.to_us).max(ns(span.from_us)));
    Slice { name: span.name.clone(), from, to, args, arrows: Vec::new() }
}

fn draw(slice: Slice, (pid, tid): (usize, usize), events: &mut Vec<(u64, Value)>) {
    let us = |ns: u64| ns as f64 / 1e3;
    let Slice { name, from, to, args, arrows } = slice;
    assert!(from <= to, "a slice ends after its beginning");
    let event = json!({
        "ph": "X", "cat": "hop", "name": name, "pid": pid, "tid": tid,
        "ts": us(from), "dur": us(to - from), "args": args,
    });
    events.push((from, event));
    for (id, tip) in arrows {
        let mut event = json!({
            "ph": "s", "cat": "hop", "name": "to", "id": id, "pid": pid, "tid": tid, "ts": us(from),
        });
        if tip == Tip::End {
            event["ph"] = "f".into();
            event["bp"] = "e".into();
        }
        events.push((from, event));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use meridian_base::Rng;

    use super::*;

    fn span(name: &str, parent: Option<usize>, from_us: f64, to_us: f64) -> SpanTimes {
        SpanTimes { name: name.to_owned(), parent, from_us, to_us, ..SpanTimes::default() }
    }

    fn call(name: &str, parent: usize, place: Option<&str>, from_us: f64, to_us: f64) -> SpanTimes {
        let place = place.map(str::to_owned);
        SpanTimes { is_call: true, place, ..span(name, Some(parent), from_us, to_us) }
    }

    /// A request that is retried and then answered by `replica`.
    fn retried(at_us: u64, replica: &str) -> RequestTimes {
        let mut failed = call("chat m", 0, Some("r9"), 20.5, 40.0);
        failed.error = Some("unreached".to_owned());
        let spans = vec![
            span("POST /v1/chat/completions", None, 0.0, 1000.125),
            span("admission", Some(0), 0.0, 20.5),
            span("read body", Some(1), 0.0, 10.0),
            failed,
            call("chat m", 0, Some(replica), 40.0, 1000.125),
            span("connect", Some(4), 40.0, 41.25),
            span("first token", Some(4), 41.25, 500.0),
            span("relay", Some(4), 500.0, 1000.125),
        ];
        RequestTimes { id: Some(format!("req-{at_us}")), at_us, spans }
    }

    /// A request with two legs, of which the second may begin before the first ends.
    fn split(at_us: u64, together: bool) -> RequestTimes {
        let sent = if together { 10.0 } else { 300.0 };
        let spans = vec![
            span("POST /v1/completions", None, 0.0, 900.0),
            call("text_completion m", 0, None, 5.0, 900.0),
            call("prefill", 1, Some("p0"), 10.0, 300.0),
            call("decode", 1, Some("d0"), sent, 900.0),
            span("kv wait", Some(3), 300.0, 350.0),
            span("relay", Some(3), 350.0, 900.0),
        ];
        RequestTimes { id: None, at_us, spans }
    }

    fn events(requests: Vec<RequestTimes>) -> Vec<Value> {
        let times = Times { region: "eu".to_owned(), requests };
        let trace: Value = serde_json::from_str(&trace(&times)).unwrap();
        trace["traceEvents"].as_array().unwrap().clone()
    }

    /// Checks what an importer requires: times that rise, slices that nest in their track, arrows with
    /// two ends that lie in slices, and names for all processes and tracks.
    fn check(events: &[Value]) {
        let number =
            |event: &Value, name: &str| event[name].as_f64().unwrap_or_else(|| panic!("{event}"));
        let ns = |us: f64| (us * 1e3).round() as u64;
        let track = |event: &Value| (number(event, "pid") as u64, number(event, "tid") as u64);
        let (mut processes, mut tracks) = (BTreeSet::new(), BTreeSet::new());
        let mut open: BTreeMap<(u64, u64), Vec<u64>> = BTreeMap::new();
        let (mut last, mut begun, mut arrows) = (0, BTreeSet::new(), 0);
        for event in events {
            let phase = event["ph"].as_str().unwrap();
            if phase == "M" {
                match event["name"].as_str().unwrap() {
                    "process_name" => assert!(processes.insert(track(event).0), "{event}"),
                    "thread_name" => assert!(tracks.insert(track(event)), "{event}"),
                    name => assert_eq!(name, "process_sort_index"),
                }
                continue;
            }
            let at = ns(number(event, "ts"));
            assert!(at >= last, "time goes back: {event}");
            last = at;
            assert!(
                processes.contains(&track(event).0) && tracks.contains(&track(event)),
                "{event}"
            );
            let stack = open.entry(track(event)).or_default();
            match phase {
                "X" => {
                    stack.retain(|end| *end > at);
                    let end = ns(number(event, "ts") + number(event, "dur"));
                    assert!(stack.last().is_none_or(|outer| end <= *outer), "overlaps: {event}");
                    assert!(event["args"].is_object() && event["name"].is_string(), "{event}");
                    stack.push(end);
                }
                "s" => {
                    assert!(stack.last().is_some_and(|end| *end >= at), "in no slice: {event}");
                    assert!(begun.insert(event["id"].as_u64().unwrap()), "{event}");
                }
                "f" => {
                    assert!(stack.last().is_some_and(|end| *end >= at), "in no slice: {event}");
                    assert!(begun.contains(&event["id"].as_u64().unwrap()), "{event}");
                    assert_eq!(event["bp"], "e");
                    arrows += 1;
                }
                other => panic!("an unknown phase {other}: {event}"),
            }
        }
        assert_eq!(arrows, begun.len(), "an arrow has no end");
    }

    fn named<'a>(events: &'a [Value], name: &str) -> Vec<&'a Value> {
        events.iter().filter(|event| event["ph"] == "X" && event["name"] == name).collect()
    }

    // A retried request: both attempts at the gateway and at their replicas, with two arrows; times
    // to the nanosecond; the parts of the answer at the replica.
    #[test]
    fn attempts() {
        let events = events(vec![retried(7_000_000, "r1")]);
        check(&events);
        let attempts = named(&events, "chat m");
        let pids: Vec<_> = attempts.iter().map(|event| event["pid"].as_u64().unwrap()).collect();
        assert_eq!(pids, [1, 2, 1, 3]);
        assert_eq!(attempts[0]["args"]["error"], "unreached");
        assert_eq!(named(&events, "relay")[0]["pid"], 3);
        let root = named(&events, "POST /v1/chat/completions")[0];
        assert_eq!((&root["ts"], &root["dur"]), (&json!(0.0), &json!(1000.125)));
        assert_eq!(root["args"]["id"], "req-7000000");
        let names = events.iter().filter(|event| event["name"] == "process_name");
        let names: Vec<_> = names.map(|event| event["args"]["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["gateway eu", "replica r9", "replica r1"]);
        assert_eq!(events.iter().filter(|event| event["ph"] == "f").count(), 2);
    }

    // A split request: each leg at its replica, an arrow to the first and one between the two.
    #[test]
    fn legs() {
        for together in [false, true] {
            let events = events(vec![split(5, together)]);
            check(&events);
            assert_eq!(named(&events, "text_completion m").len(), 1);
            let (prefill, decode) = (named(&events, "prefill")[0], named(&events, "decode")[0]);
            assert_ne!(prefill["pid"], decode["pid"]);
            assert_eq!(named(&events, "kv wait")[0]["pid"], decode["pid"]);
            let tips = |phase: &str| {
                let tips = events.iter().filter(|event| event["ph"] == phase);
                tips.map(|event| event["pid"].clone()).collect::<Vec<_>>()
            };
            assert_eq!(tips("s"), [json!(1), prefill["pid"].clone()]);
            assert_eq!(tips("f"), [prefill["pid"].clone(), decode["pid"].clone()]);
        }
    }

    // Requests at once have tracks of their own, and later ones use them again.
    #[test]
    fn tracks() {
        let events = events((0..30).map(|n| retried(400 * n, "r1")).collect());
        check(&events);
        let gateway = named(&events, "POST /v1/chat/completions");
        let tracks: BTreeSet<_> = gateway.iter().map(|event| event["tid"].as_u64()).collect();
        assert_eq!((gateway.len(), tracks.len()), (30, 3));
    }

    // Many requests at random times, with parts that disagree about their ends, are still valid.
    #[test]
    fn any_times() {
        let mut rng = Rng::new(7);
        for _ in 0..200 {
            let request = |rng: &mut Rng| {
                let at = rng.below(5000) as u64;
                let mut request = match rng.below(3) {
                    0 => retried(at, "r1"),
                    1 => split(at, true),
                    _ => split(at, false),
                };
                for span in &mut request.spans[1..] {
                    span.from_us = rng.below(1500) as f64 / 1.5;
                    span.to_us = span.from_us + rng.below(900) as f64 / 7.0;
                }
                request
            };
            let requests = (0..rng.below(20)).map(|_| request(&mut rng)).collect();
            check(&events(requests));
        }
        check(&events(Vec::new()));
    }
}
