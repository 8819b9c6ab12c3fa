//! Medians, ratios, the table and the file.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::cases::{CASES, Case};
use crate::commit;
use crate::load::table;

/// One measurement.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    pub(super) p50_us: f64,
    pub(super) rps: f64,
    /// CPU of the system's own processes a request.
    pub(super) cpu_us: f64,
    pub(super) errors: u64,
}

/// A median with its range.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Spread {
    pub(super) median: f64,
    pub(super) min: f64,
    pub(super) max: f64,
}

impl Spread {
    fn of(mut values: Vec<f64>) -> Option<Spread> {
        values.sort_by(f64::total_cmp);
        let (min, max) = (*values.first()?, *values.last()?);
        let middle = |i: usize| values[i];
        let n = values.len();
        let median = (middle((n - 1) / 2) + middle(n / 2)) / 2.0;
        Some(Spread { median, min, max })
    }

    fn show(self, digits: usize) -> String {
        let Spread { median, min, max } = self;
        format!("{median:.digits$} ({min:.digits$}-{max:.digits$})")
    }
}

/// The largest allowed ratio to an earlier build's figure, which covers the variation between
/// rounds.
const NO_SLOWER: f64 = 1.05;

/// With pools, who is compared: systems that speak the same protocol to the replicas.
const PAIRS: [[&str; 2]; 2] = [["meridian-sglang", "smg"], ["meridian-nixl", "vllm-router"]];

/// Reads one metric from a sample.
type Field = fn(&Sample) -> f64;

/// All measurements of a race.
pub(super) struct Race {
    systems: Vec<(&'static str, String)>,
    samples: BTreeMap<(&'static str, &'static str), Vec<Sample>>,
    memory: BTreeMap<&'static str, (u64, u64)>,
}

impl Race {
    pub(super) fn new(systems: impl Iterator<Item = (&'static str, String)>) -> Race {
        Race { systems: systems.collect(), samples: BTreeMap::new(), memory: BTreeMap::new() }
    }

    pub(super) fn add(&mut self, system: &'static str, case: &Case, sample: Sample) {
        self.samples.entry((system, case.name)).or_default().push(sample);
    }

    pub(super) fn memory(&mut self, system: &'static str, memory: Option<(u64, u64)>) {
        self.memory.extend(memory.map(|m| (system, m)));
    }

    fn of(&self, system: &'static str, case: &'static str) -> &[Sample] {
        self.samples.get(&(system, case)).map_or(&[], Vec::as_slice)
    }

    fn spread(&self, system: &'static str, case: &'static str, field: Field) -> Option<Spread> {
        Spread::of(self.of(system, case).iter().map(field).collect())
    }

    /// The spread, over rounds, of a ratio of two systems within the same round.
    fn paired(
        &self,
        case: &'static str,
        systems: [&'static str; 3],
        value: impl Fn([&Sample; 3]) -> f64,
    ) -> Option<Spread> {
        let [a, b, c] = systems.map(|s| self.of(s, case));
        let rounds = a.iter().zip(b).zip(c);
        Spread::of(rounds.map(|((a, b), c)| value([a, b, c])).collect())
    }

    /// The latency that `mine` adds to a stream, relative to the latency that `peer` adds. The
    /// peer's is a median: in a single round it may be as small as the noise, which makes the ratio
    /// meaningless.
    fn added(&self, mine: &'static str, peer: &'static str) -> Option<Spread> {
        let added = |s: [&Sample; 3]| s[0].p50_us - s[1].p50_us;
        let mine = self.paired("sse_c1", [mine, "direct", "direct"], added)?;
        let theirs = self.paired("sse_c1", [peer, "direct", "direct"], added)?.median.max(1.0);
        let [median, min, max] = [mine.median, mine.min, mine.max].map(|v| v / theirs);
        Some(Spread { median, min, max })
    }

    /// The targets: the comparison, the result, the limit, and whether it is met.
    fn targets(&self) -> Vec<(String, Spread, f64, bool)> {
        let mut out = Vec::new();
        let mut at_most = |name: &str, value: Option<Spread>, target: f64| {
            out.extend(value.map(|v| (name.to_owned(), v, target, v.median <= target)));
        };
        let cpu = |s: [&Sample; 3]| s[0].cpu_us / s[1].cpu_us;
        let rps = |s: [&Sample; 3]| s[0].rps / s[1].rps;
        let vs = |peer: &'static str| ["meridian", peer, "direct"];
        at_most("p50 added, SSE c=1, to smg's", self.added("meridian", "smg"), 0.5);
        at_most("p50 added, SSE c=1, to nginx's", self.added("meridian", "nginx"), 1.3);
        at_most("CPU a request, SSE c=32, to smg's", self.paired("sse_c32", vs("smg"), cpu), 0.5);
        at_most(
            "CPU a request, SSE c=32, to nginx's",
            self.paired("sse_c32", vs("nginx"), cpu),
            1.5,
        );
        let https = ["meridian-https", "nginx-https", "direct"];
        at_most("p50 added, SSE c=1, https, to nginx's", self.added(https[0], https[1]), 1.3);
        let ratio = self.paired("sse_c32", https, cpu);
        at_most("CPU a request, SSE c=32, https, to nginx's", ratio, 1.5);
        for (name, case) in [("plain", "plain_c32"), ("SSE", "sse_c32"), ("64 KB", "64k_c32")] {
            let ratio = self.paired(case, vs("before"), cpu);
            at_most(&format!("CPU a request, {name} c=32, to before's"), ratio, NO_SLOWER);
        }
        let p50 = |s: [&Sample; 3]| s[0].p50_us / s[1].p50_us;
        at_most("p50, SSE c=1, to before's", self.paired("sse_c1", vs("before"), p50), NO_SLOWER);
        for [mine, peer] in PAIRS {
            let name = |what: &str| format!("{what}, {mine} to {peer}'s");
            at_most(&name("p50 added, SSE c=1"), self.added(mine, peer), 0.5);
            let ratio = self.paired("sse_c32", [mine, peer, "direct"], cpu);
            at_most(&name("CPU a request, SSE c=32"), ratio, 0.5);
        }
        let memory = self.memory.get("meridian").map(|(_, peak)| *peak as f64 / 1e6);
        at_most("peak memory, MB", memory.and_then(|mb| Spread::of(vec![mb])), 50.0);
        let mut at_least = |name: &str, value: Option<Spread>, target: f64| {
            out.extend(value.map(|v| (name.to_owned(), v, target, v.median >= target)));
        };
        at_least("requests/s, SSE c=32, to smg's", self.paired("sse_c32", vs("smg"), rps), 2.0);
        let recorded = ["recorded", "meridian", "direct"];
        for (name, case) in [("plain", "plain_c32"), ("SSE", "sse_c32"), ("64 KB", "64k_c32")] {
            let ratio = self.paired(case, recorded, rps);
            at_least(&format!("requests/s, {name} c=32, recorded to meridian's"), ratio, 0.9);
        }
        for [mine, peer] in PAIRS {
            let ratio = self.paired("sse_c32", [mine, peer, "direct"], rps);
            at_least(&format!("requests/s, SSE c=32, {mine} to {peer}'s"), ratio, 2.0);
        }
        let direct = ["meridian", "direct", "direct"];
        at_least("requests/s, 64 KB c=32, to direct", self.paired("64k_c32", direct, rps), 0.95);
        out
    }

    /// The tables.
    pub(super) fn render(&self) -> String {
        let p50 = |c: &'static str| move |s| self.spread(s, c, |x| x.p50_us).map(|v| v.show(0));
        let rps = |c: &'static str| move |s| self.spread(s, c, |x| x.rps).map(|v| v.show(0));
        let cpu = |c: &'static str| {
            move |s| self.spread(s, c, |x| x.cpu_us).filter(|_| s != "direct").map(|v| v.show(1))
        };
        let mut latency = self.table("c=1, p50 us");
        self.column(&mut latency, "plain", p50("plain_c1"));
        self.column(&mut latency, "SSE", p50("sse_c1"));
        let mut rate = self.table("c=32, requests/s");
        let mut cost = self.table("c=32, CPU us a request");
        for (name, case) in [("plain", "plain_c32"), ("SSE", "sse_c32"), ("64 KB SSE", "64k_c32")] {
            self.column(&mut rate, name, rps(case));
            self.column(&mut cost, name, cpu(case));
        }
        let mut rest = self.table("memory MB");
        let mb = |bytes: u64| format!("{:.1}", bytes as f64 / 1e6);
        self.column(&mut rest, "after", |s| self.memory.get(s).map(|m| mb(m.0)));
        self.column(&mut rest, "peak", |s| self.memory.get(s).map(|m| mb(m.1)));
        self.column(&mut rest, "errors", |s| Some(self.errors(s).to_string()));
        self.column(&mut rest, "version", |s| {
            self.systems.iter().find(|(name, _)| *name == s).map(|(_, v)| v.clone())
        });
        let tables = [latency, rate, cost, rest].map(|rows| {
            let header: Vec<&str> = rows[0].iter().map(String::as_str).collect();
            let mut t = table::table(&header);
            t.add_rows(rows[1..].to_vec());
            t.trim_fmt()
        });
        format!("{}\n\n{}", tables.join("\n\n"), self.render_targets())
    }

    /// Rows of text: a header and a row for each system, with only their names so far.
    fn table(&self, title: &str) -> Vec<Vec<String>> {
        let names = self.systems.iter().map(|(name, _)| vec![(*name).to_owned()]);
        std::iter::once(vec![title.to_owned()]).chain(names).collect()
    }

    fn column(
        &self,
        rows: &mut [Vec<String>],
        header: &str,
        cell: impl Fn(&'static str) -> Option<String>,
    ) {
        rows[0].push(header.to_owned());
        for ((name, _), row) in self.systems.iter().zip(&mut rows[1..]) {
            row.push(cell(name).unwrap_or_else(|| "-".to_owned()));
        }
    }

    fn errors(&self, system: &str) -> u64 {
        let of = self.samples.iter().filter(|((s, _), _)| *s == system);
        of.flat_map(|(_, samples)| samples).map(|s| s.errors).sum()
    }

    fn render_targets(&self) -> String {
        let mut t = table::table(&["meridian", "median (range)", "target", ""]);
        for (name, value, target, met) in self.targets() {
            let sign = if name.starts_with("requests") { ">=" } else { "<=" };
            let met = if met { "met" } else { "MISSED" };
            t.add_row([name, value.show(2), format!("{sign} {target}"), met.to_owned()]);
        }
        t.trim_fmt()
    }

    /// The results file.
    pub(super) fn json(&self) -> Value {
        let mut rows = Vec::new();
        for (system, _) in &self.systems {
            for case in &CASES {
                let fields: [(&str, &str, Field); 3] = [
                    ("p50", "us", |s| s.p50_us),
                    ("rate", "requests/s", |s| s.rps),
                    ("cpu", "us/request", |s| s.cpu_us),
                ];
                for (field, unit, get) in fields {
                    let Some(v) = self.spread(system, case.name, get) else { continue };
                    rows.push(json!({
                        "name": format!("{}.{field}.{system}", case.name), "unit": unit,
                        "value": v.median, "min": v.min, "max": v.max, "system": system,
                        "case": case.title,
                        "rounds": self.of(system, case.name).iter().map(get).collect::<Vec<_>>(),
                    }));
                }
            }
            if let Some((after, peak)) = self.memory.get(system) {
                for (name, bytes) in [("after", after), ("peak", peak)] {
                    let name = format!("memory_{name}.{system}");
                    rows.push(json!({"name": name, "unit": "bytes", "value": bytes}));
                }
            }
            let name = format!("errors.{system}");
            rows.push(json!({"name": name, "unit": "requests", "value": self.errors(system)}));
        }
        for (name, v, target, met) in self.targets() {
            rows.push(json!({
                "name": format!("target: {name}"), "unit": "", "value": v.median, "min": v.min,
                "max": v.max, "target": target, "met": met,
            }));
        }
        let versions: BTreeMap<_, _> = self.systems.iter().cloned().collect();
        json!({"bench": "gateway", "commit": commit(), "versions": versions, "rows": rows})
    }
}

#[cfg(test)]
mod tests;
