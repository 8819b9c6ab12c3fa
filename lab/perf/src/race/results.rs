//! Medians, ratios, the table and the file.

use std::collections::BTreeMap;

use meridian_fleet::lined;
use meridian_tools::commit;
use serde_json::{Value, json};

use super::cases::Case;

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

/// Comparisons of the latency that a system adds at c=1, and of its CPU time at c=32: the case, the
/// system, the peer, the system that adds nothing, a note for the name, and both limits.
type Compared = (&'static str, &'static str, &'static str, &'static str, &'static str, [f64; 2]);
const COMPARED: [Compared; 7] = [
    ("sse", "meridian", "smg", "direct", "", [0.5, 0.5]),
    ("sse", "meridian", "nginx", "direct", "", [1.3, 1.5]),
    ("apart", "meridian", "nginx", "direct", "", [1.3, 1.5]),
    ("sse", "meridian-https", "nginx-https", "direct", ", https", [1.3, 1.5]),
    ("sse", "meridian-tls", "nginx-tls", "direct-tls", ", TLS", [1.3, 1.5]),
    ("sse", "meridian-sglang", "smg", "direct", ", meridian-sglang", [0.5, 0.5]),
    ("sse", "meridian-nixl", "vllm-router", "direct", ", meridian-nixl", [0.5, 0.5]),
];

/// A comparison, its result, the limit, and whether it is met.
type Target = (String, Spread, f64, bool);

/// Reads one metric from a sample.
type Field = fn(&Sample) -> f64;

/// All measurements of a race.
pub(super) struct Race {
    cases: Vec<&'static Case>,
    systems: Vec<(&'static str, String)>,
    samples: BTreeMap<(&'static str, &'static str), Vec<Sample>>,
    memory: BTreeMap<&'static str, (u64, u64)>,
}

impl Race {
    pub(super) fn new(
        systems: impl Iterator<Item = (&'static str, String)>,
        cases: &[&'static Case],
    ) -> Race {
        Race {
            cases: cases.to_vec(),
            systems: systems.collect(),
            samples: BTreeMap::new(),
            memory: BTreeMap::new(),
        }
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

    /// The latency that `mine` adds to `base` in a case, relative to the latency that `peer` adds.
    /// The peer's is a median: in a single round it may be as small as the noise, which makes the
    /// ratio meaningless.
    fn added(&self, case: &'static str, [mine, peer, base]: [&'static str; 3]) -> Option<Spread> {
        let added = |s: [&Sample; 3]| s[0].p50_us - s[1].p50_us;
        let mine = self.paired(case, [mine, base, base], added)?;
        let theirs = self.paired(case, [peer, base, base], added)?.median.max(1.0);
        let [median, min, max] = [mine.median, mine.min, mine.max].map(|v| v / theirs);
        Some(Spread { median, min, max })
    }

    /// The ratio of one metric of two systems within a round.
    fn ratio(
        &self,
        case: &'static str,
        [mine, peer]: [&'static str; 2],
        field: Field,
    ) -> Option<Spread> {
        self.paired(case, [mine, peer, peer], |s| field(s[0]) / field(s[1]))
    }

    /// The targets: the comparison, the result, the limit, and whether it is met.
    fn targets(&self) -> Vec<Target> {
        let mut out = self.limits();
        let mut at_least = |name: String, value: Option<Spread>, target: f64| {
            out.extend(value.map(|v| (name, v, target, v.median >= target)));
        };
        let rps = |case, systems| self.ratio(case, systems, |s| s.rps);
        let name = "requests/s, SSE c=32, to smg's".to_owned();
        at_least(name, rps("sse_c32", ["meridian", "smg"]), 2.0);
        for case in self.cases.iter().filter(|case| case.connections > 1) {
            let name = format!("requests/s, {}, recorded to meridian's", case.title());
            at_least(name, rps(case.name, ["recorded", "meridian"]), 0.9);
        }
        for [mine, peer] in PAIRS {
            let name = format!("requests/s, SSE c=32, {mine} to {peer}'s");
            at_least(name, rps("sse_c32", [mine, peer]), 2.0);
        }
        let name = "requests/s, 64 KB SSE c=32, to direct".to_owned();
        at_least(name, rps("64k_c32", ["meridian", "direct"]), 0.95);
        out
    }

    /// The targets that are upper limits.
    fn limits(&self) -> Vec<Target> {
        let mut out = Vec::new();
        let mut at_most = |name: String, value: Option<Spread>, target: f64| {
            out.extend(value.map(|v| (name, v, target, v.median <= target)));
        };
        let cpu = |case, systems| self.ratio(case, systems, |s| s.cpu_us);
        for (case, mine, peer, base, note, [latency, cost]) in COMPARED {
            let (c1, c32) = (format!("{case}_c1"), format!("{case}_c32"));
            let (c1, c32) = (self.case(&c1), self.case(&c32));
            if let Some(case) = c1 {
                let name = format!("p50 added, {}{note}, to {peer}'s", case.title());
                at_most(name, self.added(case.name, [mine, peer, base]), latency);
            }
            if let Some(case) = c32 {
                let name = format!("CPU a request, {}{note}, to {peer}'s", case.title());
                at_most(name, cpu(case.name, [mine, peer]), cost);
            }
        }
        for (mine, before) in [("meridian", "before"), ("meridian-tls", "before-tls")] {
            for case in &self.cases {
                let (what, ratio) = if case.connections == 1 {
                    ("p50", self.ratio(case.name, [mine, before], |s| s.p50_us))
                } else {
                    ("CPU a request", cpu(case.name, [mine, before]))
                };
                at_most(format!("{what}, {}, to {before}'s", case.title()), ratio, NO_SLOWER);
            }
        }
        let memory = self.memory.get("meridian").map(|(_, peak)| *peak as f64 / 1e6);
        at_most("peak memory, MB".to_owned(), memory.and_then(|mb| Spread::of(vec![mb])), 50.0);
        out
    }

    fn case(&self, name: &str) -> Option<&'static Case> {
        self.cases.iter().copied().find(|case| case.name == name)
    }

    /// The tables: of one connection the latency, of more the rate and the CPU time.
    pub(super) fn render(&self) -> String {
        let mut counts: Vec<u32> = self.cases.iter().map(|case| case.connections).collect();
        counts.sort_unstable();
        counts.dedup();
        let mut tables = Vec::new();
        for c in counts {
            if c == 1 {
                tables.push(self.figures(c, "p50 us", 0, |x| x.p50_us));
            } else {
                tables.push(self.figures(c, "requests/s", 0, |x| x.rps));
            }
            tables.push(self.figures(c, "CPU us a request", 1, |x| x.cpu_us));
        }
        tables.push(self.rest());
        let tables: Vec<String> = tables.iter().map(|rows| drawn(rows)).collect();
        format!("{}\n\n{}", tables.join("\n\n"), self.render_targets())
    }

    /// A column for each case with so many connections. The mock's CPU time is not measured.
    fn figures(
        &self,
        connections: u32,
        unit: &str,
        digits: usize,
        field: Field,
    ) -> Vec<Vec<String>> {
        let mut rows = self.table(&format!("c={connections}, {unit}"));
        for case in self.cases.iter().filter(|case| case.connections == connections) {
            self.column(&mut rows, case.body.title, |system| {
                let spread = self.spread(system, case.name, field)?;
                (spread.max > 0.0).then(|| spread.show(digits))
            });
        }
        rows
    }

    fn rest(&self) -> Vec<Vec<String>> {
        let mut rest = self.table("memory MB");
        let mb = |bytes: u64| format!("{:.1}", bytes as f64 / 1e6);
        self.column(&mut rest, "after", |s| self.memory.get(s).map(|m| mb(m.0)));
        self.column(&mut rest, "peak", |s| self.memory.get(s).map(|m| mb(m.1)));
        self.column(&mut rest, "errors", |s| Some(self.errors(s).to_string()));
        self.column(&mut rest, "version", |s| {
            self.systems.iter().find(|(name, _)| *name == s).map(|(_, v)| v.clone())
        });
        rest
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
        let mut t = lined(&["meridian", "median (range)", "target", ""]);
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
            for case in &self.cases {
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
                        "case": case.title(),
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

fn drawn(rows: &[Vec<String>]) -> String {
    let header: Vec<&str> = rows[0].iter().map(String::as_str).collect();
    let mut table = lined(&header);
    table.add_rows(rows[1..].to_vec());
    table.trim_fmt()
}

#[cfg(test)]
mod tests;
