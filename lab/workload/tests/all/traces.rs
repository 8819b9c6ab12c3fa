//! Runs the scenarios of traces: lines in, requests, programs or figures out. `REWRITE=1 cargo test
//! -p meridian-workload` rewrites the outputs; read the diff before you commit it.
//!
//! Every command names the `format` of its lines, and may add `lenient`, `block=N`, `crlf` (other
//! line ends), `cut=N` (the last N bytes are missing) and `most=N` (bytes of a line):
//! * `read`: the requests, unchanged.
//! * `shape [spread=S] [within=S] [from=S] [to=S] [rate=X] [limit=N] [beyond=N] [regions=(a,b)]
//!   [weight=X] [seed=N]`: the requests that are left, by time. Sessions are numbered as they
//!   appear.
//! * `programs [chained]`: segments are letters, equal letters for equal text, each with its
//!   tokens.
//! * `convert to=FORMAT [to_block=N]`, `stats [opening=N]`.
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use datadriven::{TestCase, walk};
use meridian_base::Time;
use meridian_workload::Program;
use meridian_workload::trace::{
    Answers, Format, ProgramOptions, ReadOptions, Reader, Shape, Stats, StatsOptions, TraceRequest,
    Writer, shape, to_programs,
};

// Each file of tests/traces describes its tests.
#[test]
fn scenarios() {
    walk("tests/traces", |file| {
        file.run(|case| {
            let mut out = String::new();
            match case.directive.as_str() {
                "read" => read(case, &mut out),
                "shape" => shaped(case, &mut out),
                "programs" => programs(case, &mut out),
                "convert" => convert(case, &mut out),
                "stats" => stats(case, &mut out),
                other => panic!("no command {other}"),
            }
            case.expect_empty().unwrap();
            if out.is_empty() { "(nothing)\n".to_owned() } else { out }
        });
    });
}

fn arg<T: std::str::FromStr>(case: &mut TestCase, name: &str, default: T) -> T
where
    T::Err: std::error::Error + Send + Sync + 'static,
{
    case.try_take_arg(name).unwrap().unwrap_or(default)
}

fn format(case: &mut TestCase, name: &str) -> Format {
    let given: String = case.take_arg(name).unwrap();
    Format::named(&given).unwrap_or_else(|| panic!("no format {given}"))
}

fn reader(case: &mut TestCase) -> Reader<std::io::Cursor<Vec<u8>>> {
    let format = format(case, "format");
    let mut text = case.input.clone();
    if case.take_flag("crlf").unwrap() {
        text = text.replace('\n', "\r\n");
    }
    text.truncate(text.len() - arg(case, "cut", 0));
    let options = ReadOptions {
        block_tokens: case.try_take_arg("block").unwrap(),
        lenient: case.take_flag("lenient").unwrap(),
        max_line_bytes: arg(case, "most", 1000),
    };
    Reader::new(std::io::Cursor::new(text.into_bytes()), format, &options)
}

fn seconds(case: &mut TestCase, name: &str, default: f64) -> Duration {
    Duration::from_secs_f64(arg(case, name, default))
}

fn shape_of(case: &mut TestCase) -> Shape {
    let regions: Vec<String> = case.try_take_args("regions").unwrap().unwrap_or_default();
    let weight = arg(case, "weight", 1.0);
    Shape {
        seed: arg(case, "seed", 1),
        order_within: seconds(case, "within", 600.0),
        spread: seconds(case, "spread", 0.0),
        from: Time::ZERO + seconds(case, "from", 0.0),
        to: Time::ZERO + seconds(case, "to", 1e6),
        rate: arg(case, "rate", 1.0),
        limit: arg(case, "limit", u64::MAX),
        sessions_beyond: case.try_take_arg("beyond").unwrap(),
        regions: regions.iter().map(|name| (Arc::from(name.as_str()), weight)).collect(),
    }
}

/// The optional fields of a request.
fn extras(r: &TraceRequest) -> String {
    let mut out = String::new();
    let mut add = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            write!(out, " {name}={value}").unwrap();
        }
    };
    add("session", r.session.map(|s| format!("{s:x}")));
    add("parent", r.parent.map(|p| p.to_string()));
    add("turn", r.turn.map(|t| t.to_string()));
    add("region", r.region.as_deref().map(str::to_owned));
    add("tenant", r.tenant.map(|t| format!("{t:x}")));
    add("outcome", r.outcome.map(|o| o.name().to_owned()));
    add("ttft", r.ttft.map(|t| format!("{t:?}")));
    add("e2e", r.e2e.map(|t| format!("{t:?}")));
    add("model", r.model.as_deref().map(str::to_owned));
    add("policy", r.policy.as_deref().map(str::to_owned));
    out
}

fn read(case: &mut TestCase, out: &mut String) {
    let mut reader = reader(case);
    for request in &mut reader {
        match request {
            Err(error) => writeln!(out, "{error}").unwrap(),
            Ok(r) => writeln!(
                out,
                "{} in={} out={} block={} {:?}{}",
                r.at,
                r.input_tokens,
                r.output_tokens,
                r.block_tokens,
                r.hash_ids,
                extras(&r)
            )
            .unwrap(),
        }
    }
    if let Some(first) = &reader.skipped().first {
        writeln!(out, "skipped {}; {first}", reader.skipped().lines).unwrap();
    }
}

fn shaped(case: &mut TestCase, out: &mut String) {
    let to = shape_of(case);
    let mut names: BTreeMap<u64, usize> = BTreeMap::new();
    let requests = match shape(reader(case), &to) {
        Ok(requests) => requests,
        Err(fault) => return writeln!(out, "{fault}").unwrap(),
    };
    for request in requests {
        match request {
            Err(error) => writeln!(out, "{error}").unwrap(),
            Ok(r) => {
                write!(out, "{} in={}", r.at, r.input_tokens).unwrap();
                if let Some(session) = r.session {
                    let next = names.len() + 1;
                    write!(out, " session {}", names.entry(session).or_insert(next)).unwrap();
                }
                writeln!(out, "{}", r.region.map_or(String::new(), |r| format!(" {r}"))).unwrap();
            }
        }
    }
}

fn programs(case: &mut TestCase, out: &mut String) {
    let answers = Answers { ttft: Duration::from_secs(1), tpot: Duration::from_millis(100) };
    let chained = case.take_flag("chained").unwrap().then_some(answers);
    let options = ProgramOptions { seed: 1, chained, ..ProgramOptions::default() };
    let to = shape_of(case);
    let requests = shape(reader(case), &to).unwrap();
    let mut letters: BTreeMap<u64, char> = BTreeMap::new();
    for program in to_programs(requests, &options) {
        match program {
            Err(error) => writeln!(out, "{error}").unwrap(),
            Ok((at, program)) => {
                let Program { key, tenant, .. } = &program;
                writeln!(out, "{at} region {} tenant {tenant:x}", key.region).unwrap();
                for (n, node) in program.nodes.iter().enumerate() {
                    assert_eq!(node.parent, None, "a recorded prompt is whole");
                    let beside = n > 0 && program.nodes[n - 1].level == node.level;
                    let how = if beside { "beside it, think" } else { "think" };
                    write!(out, "  {how} {:?}:", node.think).unwrap();
                    for segment in &node.adds {
                        let next = char::from_u32('A' as u32 + letters.len() as u32).unwrap();
                        let letter = letters.entry(segment.id).or_insert(next);
                        write!(out, " {letter}{}", segment.bytes / 4).unwrap();
                    }
                    writeln!(out, " -> {}", node.max_tokens).unwrap();
                }
            }
        }
    }
}

fn convert(case: &mut TestCase, out: &mut String) {
    let to = format(case, "to");
    let block = arg(case, "to_block", 16);
    let reader = reader(case);
    let Some(mut writer) = Writer::new(Vec::new(), to, block) else {
        return writeln!(out, "{} is only read", to.name()).unwrap();
    };
    for (number, request) in (0..).zip(reader) {
        writer.write(request.unwrap(), number).unwrap();
    }
    out.push_str(&String::from_utf8(writer.finish().unwrap()).unwrap());
}

fn stats(case: &mut TestCase, out: &mut String) {
    let opening_blocks = arg(case, "opening", 1);
    let mut stats = Stats::new(StatsOptions { opening_blocks, cache_blocks: vec![2, 4, 8] });
    for request in reader(case) {
        stats.add(&request.unwrap());
    }
    let s = stats.finish();
    writeln!(out, "{} in {} s, {:.3} a second", s.requests, s.seconds, s.per_second).unwrap();
    writeln!(out, "gaps cv {:.3}, per minute {:?}", s.gap_cv, s.per_minute).unwrap();
    writeln!(out, "input {:?}\noutput {:?}", s.input, s.output).unwrap();
    writeln!(out, "regions {:?}\n{:.4?}\n{:.4?}", s.regions, s.reuse, s.turns).unwrap();
}
