//! The cost of a request, the tables and the file.

use std::collections::BTreeMap;

use meridian_tools::commit;
use meridian_tools::table::Table;
use serde_json::{Value, json};

use super::super::cases::Case;
use super::instructions::Instructions;
use super::profile::{self, Profile};

/// A system, a case, and the cost.
pub(super) type CostRow = (&'static str, &'static Case, Cost);

/// A request of a case.
#[derive(Clone, Debug, Default)]
pub(super) struct Cost {
    pub(super) cpu_us: f64,
    pub(super) wake_ups: f64,
    /// By name.
    pub(super) calls: BTreeMap<String, f64>,
    /// Allocations, their bytes; copies, their bytes.
    pub(super) counts: [f64; 4],
    /// `None` if they can't be counted.
    pub(super) instructions: Option<Instructions>,
    /// Empty unless the CPU time was sampled.
    pub(super) profile: Profile,
}

/// Kinds of system calls, with the names that belong to them.
const KINDS: [(&str, &[&str]); 4] = [
    ("reads", &["read", "readv", "recvfrom", "recvmsg"]),
    ("writes", &["write", "writev", "sendto", "sendmsg", "sendfile"]),
    ("waits", &["epoll_wait", "epoll_pwait", "epoll_pwait2"]),
    ("wakes", &["futex"]),
];

impl Cost {
    fn of(&self, names: &[&str]) -> f64 {
        // The sum of nothing is -0.
        names.iter().filter_map(|name| self.calls.get(*name)).sum::<f64>() + 0.0
    }

    fn calls(&self) -> f64 {
        self.calls.values().sum()
    }

    /// Calls of no kind.
    fn others(&self) -> f64 {
        self.calls() - KINDS.iter().map(|(_, names)| self.of(names)).sum::<f64>()
    }

    fn json(&self) -> Value {
        let [allocations, allocated, copies, copied] = self.counts;
        json!({
            "cpu_us": self.cpu_us, "wake_ups": self.wake_ups, "system_calls": self.calls(),
            "by_name": self.calls, "allocations": allocations, "allocated_bytes": allocated,
            "copies": copies, "copied_bytes": copied,
            "instructions": self.instructions.map(|count| count.user),
            "kernel_instructions": self.instructions.and_then(|count| count.kernel),
            "parts": self.profile,
        })
    }
}

/// A row for each case and system.
pub(super) fn table(cases: &[&Case], costs: &[CostRow]) -> Table {
    let mut header = vec!["case", "system", "CPU, us", "wake-ups", "system calls"];
    header.extend(KINDS.map(|(kind, _)| kind));
    header.extend(["others", "allocations", "allocated, B", "copies", "copied, B"]);
    header.extend(["instructions", "kernel's"]);
    let mut table = Table::new("What a request costs", &header);
    for case in cases {
        for (system, _, cost) in costs.iter().filter(|(_, of, _)| of.name == case.name) {
            let tenth = |value: f64| format!("{value:.1}");
            let mut row = vec![case.title(), (*system).to_owned(), tenth(cost.cpu_us)];
            row.extend([cost.wake_ups, cost.calls()].map(tenth));
            row.extend(KINDS.map(|(_, names)| tenth(cost.of(names))));
            row.push(tenth(cost.others()));
            let [allocations, allocated, copies, copied] = cost.counts;
            row.extend([tenth(allocations), format!("{allocated:.0}")]);
            row.extend([tenth(copies), format!("{copied:.0}")]);
            let count = |of: Option<f64>| of.map_or("-".into(), |count| format!("{count:.0}"));
            row.push(count(cost.instructions.map(|count| count.user)));
            row.push(count(cost.instructions.and_then(|count| count.kernel)));
            table.row(row);
        }
    }
    table
}

/// The parts of the CPU time, in us of a request.
pub(super) fn parts(cases: &[&Case], costs: &[CostRow]) -> Table {
    let parts = profile::parts();
    let header: Vec<&str> = ["case", "system"].into_iter().chain(parts.iter().copied()).collect();
    let mut table = Table::new("CPU time of a request by part, us", &header);
    for case in cases {
        for (system, _, cost) in costs.iter().filter(|(_, of, _)| of.name == case.name) {
            let us = |part| cost.profile.get(part).map_or(0.0, |share| share * cost.cpu_us);
            let cells = parts.iter().map(|part| format!("{:.1}", us(*part)));
            table.row([case.title(), (*system).to_owned()].into_iter().chain(cells));
        }
    }
    table
}

/// The file of results; `way` counted the instructions.
pub(super) fn json(costs: &[CostRow], way: &str) -> Value {
    let rows: Vec<Value> = costs
        .iter()
        .map(|(system, case, cost)| json!({"name": system, "case": case.name, "cost": cost.json()}))
        .collect();
    json!({
        "bench": "costs", "commit": commit(), "unit": "each request", "instructions_by": way,
        "rows": rows,
    })
}

#[cfg(test)]
mod tests {
    use super::super::super::cases;
    use super::*;

    // A row for each case and system; calls of no kind are the others, parts are shares of the CPU
    // time, and a count that is missing is a dash.
    #[test]
    fn tables_have_the_counts() {
        let cases = cases::select(&["sse_c1".to_owned()], false).unwrap();
        let calls = [("read", 2.0), ("epoll_wait", 1.0), ("close", 0.5)];
        let cost = Cost {
            cpu_us: 50.0,
            calls: calls.map(|(name, count)| (name.to_owned(), count)).into(),
            profile: [("HTTP", 0.25), ("kernel", 0.75)].into(),
            ..Cost::default()
        };
        let instructions = Some(Instructions { user: 7347.0, kernel: None });
        let counted = Cost { instructions, ..cost.clone() };
        let rows = [("nginx", cases[0], counted), ("meridian", cases[0], cost)];
        let table = table(&cases, &rows);
        let cell = |row: usize, name| {
            let column = table.header.iter().position(|header| header == name).unwrap();
            table.rows[row][column].as_str()
        };
        assert_eq!((cell(0, "system calls"), cell(0, "others")), ("3.5", "0.5"));
        assert_eq!((cell(0, "instructions"), cell(0, "kernel's")), ("7347", "-"));
        assert_eq!(cell(1, "instructions"), "-");
        let parts = parts(&cases, &rows).rows[0].join(" ");
        assert!(parts.starts_with("SSE c=1 nginx 12.5 0.0"), "{parts}");
        assert!(parts.contains("37.5"), "{parts}");
        assert_eq!(json(&rows, "callgrind")["rows"][0]["cost"]["instructions"], 7347.0);
    }
}
