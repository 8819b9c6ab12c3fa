//! Small questions, answered.

use std::path::Path;
use std::time::Duration;

use meridian_base::Time;
use meridian_protocol::policy::{Policy, Scalar};
use meridian_routing::HeldConfig;
use meridian_tools::generator;
use meridian_tools::rule::Rule;
use meridian_workload::trace::{Outcome, TraceRequest};

use super::run::{Cell, Prepared};
use super::*;

pub(super) fn made(name: &str, rate: f64) -> Source {
    let generator = generator::build(&Policy { name: name.to_owned(), ..Policy::default() });
    Source::Made(Made::poisson(generator.unwrap(), name, rate).unwrap())
}

fn traffic(rate: f64) -> Traffic {
    Traffic::read(made("sessions", rate), &cut(60)).unwrap()
}

fn cut(requests: u64) -> Cut {
    Cut {
        after: Duration::ZERO,
        before: None,
        speed: 1.0,
        spread: Duration::ZERO,
        chained: false,
        sessions_beyond: None,
        requests,
    }
}

fn fixture(name: &str) -> Source {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../workload/tests/fixtures");
    Source::File(TraceFile {
        path: tests.join(name),
        format: None,
        block_tokens: None,
        lenient: false,
    })
}

/// Round robin and our default on one or two L4.
pub(super) fn question(source: Source, requests: u64) -> Question {
    Question {
        traffic: Traffic::read(source, &cut(requests)).unwrap(),
        places: Places::one(),
        gpus: "l4".parse().unwrap(),
        tp: 1,
        model: "llama-3.1-8b".to_owned(),
        sizes: vec![1, 2],
        policies: ["meridian", "round_robin"].map(|name| Rule::given(name).unwrap()).to_vec(),
        arrangements: vec![Arrangement::Whole],
        kv_gbps: 100.0,
        slo: "ttft=1s,tpot=100ms".parse().unwrap(),
        prices: Prices::default(),
        held: HeldConfig::default(),
        warmup: Duration::from_secs(2),
        most: 8,
        first_seed: 1,
        seeds: 1,
        each_region: false,
    }
}

fn answered(question: &Question) -> Answer {
    answer(question, &|_, _| ()).unwrap()
}

fn refused(question: &Question) -> String {
    format!("{:#}", answer(question, &|_, _| ()).expect_err("is refused"))
}

// Each policy on each size has a row; counts fit together, a larger fleet has more goodput, and the
// same question has the same answer.
#[test]
fn every_fleet_has_a_row() {
    let question = question(made("sessions", 8.0), 240);
    let answer = answered(&question);
    let cells: Vec<_> = answer.rows.iter().map(|row| (&*row.policy, row.replicas)).collect();
    assert_eq!(cells, [("meridian", 1), ("meridian", 2), ("round_robin", 1), ("round_robin", 2)]);
    for row in &answer.rows {
        assert!((0.0..=1.0).contains(&row.met) && row.hits > 0.5, "{row:?}");
        let ttft = row.ttft_ms.unwrap();
        assert!(ttft.p50 <= ttft.p90 && ttft.p90 <= ttft.p99, "{row:?}");
        assert_eq!(row.gpu_usd_per_hour, Some(0.38 * f64::from(row.replicas)));
        assert_eq!((row.egress_usd_per_hour, row.forwarded, row.split), (0.0, 0.0, 0.0));
    }
    assert!(answer.rows[1].goodput_rps >= answer.rows[0].goodput_rps);
    assert_eq!(answered(&question).rows, answer.rows);
}

// The least fleet meets the objective, and a replica less does not; it may lie outside the list.
#[test]
fn the_least_fleet_is_found() {
    let mut question = question(made("sessions", 14.0), 300);
    question.sizes = vec![1];
    let answer = answered(&question);
    assert!(!answer.rows[0].meets, "{:?}", answer.rows[0]);
    for least in &answer.least {
        let Found::Fleet(row) = &least.found else { panic!("{least:?}") };
        assert!(row.meets && row.replicas > 1, "{row:?}");
        question.sizes = vec![row.replicas - 1];
        question.policies = vec![Rule::given(&least.policy).unwrap()];
        assert!(!answered(&question).rows[0].meets, "{least:?}");
    }
}

// A fleet that gets far more than it can answer is named as overloaded, and so is a search that ends
// without a fleet.
#[test]
fn overloads_are_named() {
    let mut question = question(made("long_replies", 12.0), 900);
    (question.sizes, question.most) = (vec![1], 1);
    let answer = answered(&question);
    let command = "meridian what-if sessions";
    let report = Report { question: &question, answer: &answer, command };
    let text = report.text();
    assert!(text.starts_with("Every fleet is overloaded"), "{text}");
    assert!(text.contains("OVERLOADED: ") && text.contains("none of up to 1 replica "), "{text}");
    let marks = text.lines().filter(|line| line.contains("  overloaded ")).count();
    assert_eq!(marks, 6, "two policies in three tables: {text}");
    assert!(answer.least.iter().all(|least| matches!(least.found, Found::NoneUpTo(1))));
}

// The files say the same: JSON and CSV have every row, the plot its title, and the page all of it,
// without a script or anything from elsewhere.
#[test]
fn files_have_every_row() {
    let question = question(made("sessions", 8.0), 120);
    let answer = answered(&question);
    let report =
        Report { question: &question, answer: &answer, command: "meridian what-if <sessions>" };
    let dir = std::env::temp_dir().join(format!("meridian-what-if-{}", std::process::id()));
    report.write(&dir).unwrap();
    let read = |name: &str| std::fs::read_to_string(dir.join(name)).unwrap();
    let value: serde_json::Value = serde_json::from_str(&read("what-if.json")).unwrap();
    assert_eq!(value["rows"].as_array().unwrap().len(), 4);
    assert_eq!(value["rows"][3]["ttft_ms"]["p90"], answer.rows[3].ttft_ms.unwrap().p90);
    let csv = read("what-if.csv");
    assert!(csv.lines().count() >= 5 && csv.starts_with("policy,arrangement,fleet,"), "{csv}");
    let columns = |line: &str| line.split(',').count();
    assert!(csv.lines().all(|line| columns(line) == columns(csv.lines().next().unwrap())));
    let (svg, html) = (read("ttft.svg"), read("report.html"));
    assert!(svg.contains("<title>P90 TTFT by the number of GPUs</title>") && svg.contains("L4"));
    assert!(
        html.contains(&report.sentence()) && html.contains("meridian what-if &lt;sessions&gt;")
    );
    assert!(!html.contains("<script") && !html.contains("src=") && !html.contains("url("));
    assert!(html.contains("prefers-color-scheme: dark") && html.contains("<title>P90"));
    assert_eq!(read("report.txt"), report.text() + "\n");
    std::fs::remove_dir_all(&dir).unwrap();
}

// Pools split requests, and a mix has its kinds and their prices.
#[test]
fn pools_and_mixes() {
    let mut question = question(made("tool_agent", 1.0), 60);
    question.gpus = "h100=1,l4=1".parse().unwrap();
    question.arrangements.push(Arrangement::Pools(0.5));
    question.policies.truncate(1);
    question.sizes = vec![2];
    let answer = answered(&question);
    let [whole, pools] = answer.rows.as_slice() else { panic!("{:?}", answer.rows) };
    assert_eq!(whole.fleet, "1 h100 + 1 l4");
    assert_eq!(pools.fleet, "1 h100 prefill + 1 l4 decode");
    assert_eq!(whole.gpu_usd_per_hour, Some(1.89 + 0.38));
    assert!(whole.split == 0.0 && pools.split > 0.1, "{pools:?}");
    question.sizes = vec![1];
    let error = refused(&question);
    assert!(error.contains("replicas: 1 is too few for two replicas in each region"), "{error}");
}

const REGIONS: &str = "
regions:
  - {name: us, traffic: 0.9, egress_usd_per_gb: 0.02}
  - {name: eu, traffic: 0.1, egress_usd_per_gb: 0.02}
rtt_ms: [[1, 92], [92, 1]]
";

// A busy region forwards to an idle one, which costs egress; rules that keep requests at home end
// both.
#[test]
fn regions_forward_unless_a_rule_keeps_requests() {
    let mut question = question(made("wildchat", 1.2), 120);
    question.policies.truncate(1);
    (question.sizes, question.most) = (vec![2], 2);
    question.places = Places::parse(REGIONS).unwrap();
    let free = answered(&question);
    let row = &free.rows[0];
    assert!(row.forwarded > 0.01 && row.egress_usd_per_hour > 0.0, "{row:?}");
    for table in [table::more(&question, &free), table::least(&question, &free)] {
        let text = table.text();
        assert!(text.contains("forwarded, %") && text.contains("egress, USD/h"), "{text}");
    }
    let rules = "residency: [{name: us-keeps, from: [us], run_in: [us]}, \
                 {name: eu-keeps, from: [eu], run_in: [eu]}]\n";
    question.places = Places::parse(&format!("{REGIONS}{rules}")).unwrap();
    let kept = answered(&question).rows.remove(0);
    assert_eq!((kept.forwarded, kept.egress_usd_per_hour), (0.0, 0.0), "{kept:?}");
}

// Rules that leave some requests without a region are refused: no fleet would be large enough. Rules
// that match no request are named.
#[test]
fn residency_that_cannot_be_kept() {
    let mut question = question(made("wildchat", 1.2), 120);
    question.policies.truncate(1);
    (question.sizes, question.most) = (vec![2], 2);
    let with = |rules: &str| Places::parse(&format!("{REGIONS}residency: [{rules}]\n")).unwrap();
    question.places = with(
        "{name: eu-keeps, from: [eu], run_in: [eu]}, {name: all-to-us, from: [eu, us], run_in: [us]}",
    );
    let error = refused(&question);
    let part = "of the requests: those from eu match eu-keeps and all-to-us";
    assert!(
        error.starts_with("residency: no region may serve ") && error.contains(part),
        "{error}"
    );
    question.places = with("{name: one-model, models: [m], run_in: [us]}");
    let notes = answered(&question).notes;
    let part = "The residency rule one-model matches no request, so it changes nothing";
    assert!(notes.iter().any(|note| note.starts_with(part)), "{notes:?}");
}

// Requests without a recorded reply are counted.
#[test]
fn cancelled_requests_are_counted() {
    let request = |ms, outcome| TraceRequest {
        outcome: Some(outcome),
        ..TraceRequest::new(Time::from_millis(ms), 100, 1)
    };
    let requests = vec![
        request(0, Outcome::Done),
        request(1000, Outcome::Cancelled),
        request(2000, Outcome::Failed),
    ];
    let traffic = Traffic::recorded("journal".to_owned(), requests, Vec::new(), &cut(10)).unwrap();
    assert!(traffic.notes[0].starts_with("2 of 3 requests were cancelled or failed"));
}

// A trace is read up to the limit, and the report says that it is cut. A trace without regions can't
// be split over several by the recorded ones.
#[test]
fn traces_are_cut_and_say_so() {
    let mut question = question(fixture("mooncake_500.jsonl"), 40);
    question.gpus = "h100".parse().unwrap();
    (question.warmup, question.sizes) = (Duration::from_secs(1), vec![2]);
    let answer = answered(&question);
    assert_eq!(answer.requests, 40.0);
    assert!(answer.notes[0].contains("only its first 40 requests"), "{:?}", answer.notes);
    question.places =
        Places::parse(&REGIONS.replace("traffic: 0.9, ", "").replace("traffic: 0.1, ", ""))
            .unwrap();
    let error = refused(&question);
    assert!(error.contains("does not name the regions of requests; give each"), "{error}");
    question.warmup = Duration::from_secs(3600);
    question.places = Places::one();
    assert!(refused(&question).contains("warmup: 3600s is not shorter"));
}

// Formats without shared prefixes, and ServeGen's rates, are read too.
#[test]
fn other_formats_are_read() {
    let azure = Traffic::read(fixture("azure_1000.csv"), &cut(50)).unwrap();
    assert!(
        azure.notes.iter().any(|note| note.contains("no shared prefixes")),
        "{:?}",
        azure.notes
    );
    let Source::File(file) = fixture("servegen_rates.csv") else { panic!("it is a file") };
    let generator = generator::build(&Policy { name: "qwen_b".to_owned(), ..Policy::default() });
    let all = (Duration::ZERO, None);
    let made = Made::servegen(generator.unwrap(), "qwen_b", Some(5.0), &file.path, all).unwrap();
    let sent = made.sent(&Places::one(), 1, 200).unwrap();
    let seconds = sent.last.as_secs_f64();
    assert!(sent.requests >= 200 && (10.0..160.0).contains(&seconds), "{seconds}");
}

// Impossible questions name the field, the value and the remedy.
#[test]
fn impossible_questions_are_refused() {
    let change = |edit: fn(&mut Question)| {
        let mut question = question(made("sessions", 8.0), 60);
        edit(&mut question);
        refused(&question)
    };
    for (edit, part) in [
        ((|q| q.policies.clear()) as fn(&mut Question), "policies: the list is empty"),
        (|q| q.policies.push(q.policies[0].clone()), "policies: `meridian` is there twice"),
        (|q| q.most = 0, "most: 0 is out of range"),
        (|q| q.seeds = 0, "seeds: 0 runs nothing"),
        (|q| q.arrangements.push(Arrangement::Pools(1.5)), "pools: 1.5 is not a share"),
        (|q| q.arrangements.push(Arrangement::Pools(1e-300)), "use 0.01 to 0.99"),
        (|q| q.kv_gbps = f64::NAN, "kv-gbps: NaN is not the rate of a network card"),
        (|q| q.kv_gbps = 1e300, "use 0.1 to 10000 Gb/s"),
        (|q| q.traffic = traffic(1e-9), "days, and at most 366 are simulated; use a higher"),
        (|q| q.traffic = traffic(1e-300), "rate: with 1e-300 a second no request arrives"),
        (|q| q.traffic = traffic(1e300), "arrive at once"),
        (|q| q.model = "llama-3.1-70b".to_owned(), "does not fit l4 with tp 1"),
        (|q| q.tp = 3, "choose 1, 2, 4 or 8"),
    ] {
        let error = change(edit);
        assert!(error.contains(part), "{part}: {error}");
    }
}

// The shipped expressions repeat llm-d's blend and ours: on the recorded excerpt, on a fleet so
// busy that requests queue, each request goes to the same replica at the same time. A change of one
// weight shows.
#[test]
fn expressions_repeat_built_in_policies() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/expressions");
    let excerpt = meridian_workload::trace::find_excerpt("mooncake").unwrap();
    let mut question = question(Source::Excerpt(excerpt), 500);
    question.gpus = "h100".parse().unwrap();
    for (name, file) in [("llmd_blend", "llmd.yaml"), ("meridian", "ours.yaml")] {
        let built_in = Rule::given(name).unwrap();
        let written = Rule::given(examples.join(file).to_str().unwrap()).unwrap();
        let mut other = written.clone();
        let Some(Scalar::Word(score)) = other.written.policy.params.get_mut("score") else {
            panic!("{file} has a score")
        };
        *score = format!("{score} + running");
        other.params = meridian_config::resolve(&other.written.policy).unwrap().1;
        question.policies = vec![built_in, written, other];
        let prepared = Prepared::new(&question).unwrap();
        let choices = question.policies.iter().map(|policy| {
            let arrangement = Arrangement::Whole;
            let records = prepared.records(Cell { policy, arrangement, replicas: 2 });
            assert!(records.len() > 300, "{} requests", records.len());
            let queued = records.iter().filter(|record| !record.held.is_zero()).count();
            assert_eq!(queued > 10, name == "meridian", "{name}: {queued} requests queued");
            records.iter().map(|r| (r.sent, r.replica, r.held, r.ttft)).collect::<Vec<_>>()
        });
        let choices: Vec<_> = choices.collect();
        let differs = choices[0].iter().zip(&choices[1]).position(|(a, b)| a != b);
        assert_eq!(differs, None, "{name}: the first request that differs");
        assert!(choices[0] != choices[2], "{name}: any expression would pass");
    }
}

// A turn that had waited for an answer waits for the simulated one if it is chained, and thinks as
// long; a branch that overlapped leaves when it did. Other sessions start at their own time, at the
// given speed.
#[test]
fn chained_turns_wait() {
    let one = |ms: u64, session: u64| TraceRequest {
        session: Some(session),
        e2e: Some(Duration::from_millis(150)),
        ..TraceRequest::new(Time::from_millis(ms), 400, 100)
    };
    let trace = vec![one(3000, 1), one(3040, 1), one(3290, 1), one(20_000, 2)];
    let sent = |chained: bool, speed: f64| {
        let cut = Cut { chained, speed, ..cut(10) };
        let mut question = question(made("sessions", 1.0), 10);
        question.traffic = Traffic::recorded("t".into(), trace.clone(), Vec::new(), &cut).unwrap();
        question.warmup = Duration::ZERO;
        let prepared = Prepared::new(&question).unwrap();
        let policy = &question.policies[1];
        let cell = Cell { policy, arrangement: Arrangement::Whole, replicas: 1 };
        let mut all = prepared.records(cell);
        all.sort_by_key(|record| record.sent);
        all
    };
    let ms = |record: &meridian_sim::Record| record.sent.since(Time::ZERO).as_millis();
    let open: Vec<_> = sent(false, 1.0).iter().map(ms).collect();
    assert_eq!(open, [3000, 3040, 3290, 20_000]);
    for (speed, first, last) in [(1.0, 3000, 20_000), (2.0, 1500, 10_000)] {
        let all = sent(true, speed);
        let times: Vec<_> = all.iter().map(ms).collect();
        assert_eq!((times[0], times[1], times[3]), (first, first + 40, last));
        let ended = all[..2].iter().map(|record| record.sent + record.e2e).max().unwrap();
        assert!(ended > all[0].sent + Duration::from_secs(1), "an L4 is not that fast");
        assert_eq!(all[2].sent, ended + Duration::from_millis(100));
    }
}

// Clients of a slow fleet send later, and all of their requests count; those that wait for too long are
// named. One L4 for turns of 20 s each, recorded at one of 5 s.
#[test]
fn late_turns_count() {
    let turn = |at: u64| TraceRequest {
        session: Some(at / 1_000_000),
        e2e: Some(Duration::from_secs(4)),
        ..TraceRequest::new(Time::from_millis(at % 1_000_000), 400, 300)
    };
    let sessions = (0..2).flat_map(|s| (0..60).map(move |n| s * 1_000_000 + n * 5000 + s));
    let mut trace: Vec<_> = sessions.map(turn).collect();
    trace.sort_by_key(|request| request.at);
    let answer = |requests: &[TraceRequest]| {
        let mut question = question(made("sessions", 1.0), 10);
        let cut = Cut { chained: true, ..cut(1000) };
        let requests = requests.to_vec();
        question.traffic = Traffic::recorded("t".into(), requests, Vec::new(), &cut).unwrap();
        question.sizes = vec![1];
        question.most = 1;
        answered(&question).rows[0].clone()
    };
    let short = answer(&trace[..60]);
    assert_eq!((short.requests, &short.overloaded), (58.0, &None));
    let long = answer(&trace);
    let says = long.overloaded.expect("it is too slow").why;
    assert!(says.contains("still waited for earlier answers ten minutes after"), "{says}");
}

// Requests of a session in several regions are chained in each of them alone.
#[test]
fn sessions_are_chained_by_region() {
    let regions = "regions: [{name: us}, {name: eu}]\nrtt_ms: [[0, 80], [80, 0]]\n";
    let places = Places::parse(regions).unwrap();
    let turn = |at: u64, region: &str| TraceRequest {
        session: Some(1),
        e2e: Some(Duration::from_secs(1)),
        region: Some(region.into()),
        ..TraceRequest::new(Time::from_millis(at), 400, 10)
    };
    let trace = vec![turn(0, "us"), turn(3000, "eu"), turn(6000, "us"), turn(9000, "eu")];
    let cut = Cut { chained: true, ..cut(10) };
    let traffic = Traffic::recorded("t".into(), trace, Vec::new(), &cut).unwrap();
    let sent = traffic.sent(&places, 1).unwrap();
    let streams: Vec<_> = sent.streams.iter().map(|s| (s.region, s.programs.len())).collect();
    assert_eq!(streams, [(0, 1), (1, 1)]);
    let sizes = sent.streams.iter().map(|s| s.programs[0].1.nodes.len());
    assert_eq!(sizes.collect::<Vec<_>>(), [2, 2]);
}
