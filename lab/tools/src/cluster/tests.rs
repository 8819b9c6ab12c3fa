use std::collections::HashSet;
use std::io::Write as _;

use meridian_base::Duration;
use meridian_sim::cluster::{Base, Parallel};

use super::compare::{self, Compare};
use super::file::Load;
use super::load::Wanted;
use super::*;

const FILE: &str = "
servers: 8
gpus: 8
card: 200Gbps
models:
  - {model: mixtral-8x22b, tensor: 4, ranks: 8, prefill: 1, load: {generator: qwen_b, rate: 0.5}}
known: 16
requests: 24
";

fn refused(from: &str, to: &str) -> String {
    assert!(FILE.contains(from), "{from}");
    let compare = options(&["mfs"]);
    let file = File::read(&FILE.replace(from, to));
    let error = file.and_then(|file| compare::run(&file, &compare).map(|_| ()));
    format!("{:#}", error.expect_err(to))
}

fn options(policies: &[&str]) -> Compare {
    Compare {
        policies: policies.iter().map(|name| (*name).to_owned()).collect(),
        seed: 1,
        port: None,
        from: None,
        window: Some(Duration::from_millis(50)),
    }
}

// A file runs under two policies: a table of the model, one of ports, one of the busiest port's
// flows, a timeline each, a row each; the same file and seed give the same bytes.
#[test]
fn a_file_is_compared() {
    let file = File::read(FILE).unwrap();
    let found = compare::run(&file, &options(&["mfs", "fair"])).unwrap();
    assert_eq!((found.tables.len(), found.figures.len(), found.rows.len()), (3, 2, 2));
    assert_eq!(found.tables[0].rows.len(), 2);
    assert!(found.figures[0].svg.contains("stage 3"));
    assert!(found.rows[0]["slo_attainment"].as_f64().unwrap() > 0.0);
    let again = compare::run(&file, &options(&["mfs", "fair"])).unwrap();
    assert_eq!((found.text(), found.figures), (again.text(), again.figures));
}

// Every error in a file is reported with the field, its value and the remedy.
#[test]
fn a_bad_file_names_what_is_wrong() {
    for (from, to, words) in [
        ("card: 200Gbps", "card: 0Gbps", "`0Gbps` would be a dead port"),
        ("card: 200Gbps", "card: fast", "`fast` is not a rate: write it with a unit"),
        (
            "card: 200Gbps",
            "card: 200Gbps\nslow_cards: [{server: 9, card: 0, rate: 1Gbps}]",
            "slow_cards[0].server is 9: use 0 to 7",
        ),
        ("mixtral-8x22b", "mixtral", "models[0] (mixtral): model: `mixtral` is unknown"),
        ("generator: qwen_b", "generator: qwen", "generator: `qwen` is unknown"),
        (", rate: 0.5", "", "rate: a generator needs one"),
        ("rate: 0.5", "rate: 0", "rate is 0: use a number above 0"),
        ("prefill: 1", "prefill: 9", "576 GPUs"),
        ("prefill: 1", "prefill: 1, slo: {tight: 0.9}", "slo.tight is 0.9: a deadline before"),
        ("prefill: 1", "prefil: 1", "prefil"),
        ("prefill: 1", "prefill: 1, attention: heads", "expected one of"),
        ("prefill: 1", "prefill: 1, slo: {of: median}", "expected one of"),
        (
            "mixtral-8x22b, tensor: 4, ranks: 8",
            "llama-3-8b-1m, tensor: 4, ranks: 4, attention: tensor",
            "attention is tensor: llama-3-8b-1m has no experts, and its ranks divide the sequence",
        ),
        ("requests: 24", "requests: 0", "requests: 0 sends nothing"),
        ("known: 16", "known: 16\nflow: {levels: 40}", "levels 40 is out of range"),
        ("known: 16", "known: 16\nenforce: switch", "unknown variant `switch`"),
        ("known: 16", "known: 16\ncoordinator: {loss: 0.1}", "missing field `delay`"),
    ] {
        let message = refused(from, to);
        assert!(message.contains(words), "{to}: {message}");
    }
}

// A file that names no servers gets the published cluster.
#[test]
fn the_published_scale_is_the_default() {
    let text = FILE.replace("servers: 8\ngpus: 8\ncard: 200Gbps\n", "");
    let published = FILE.replace("servers: 8", "servers: 256");
    let file = File::read(&text).unwrap();
    assert_eq!(file, File::read(&published).unwrap());
    assert_eq!((file.servers, file.gpus), (256, 8));
}

// Attention and the base of objectives reach the simulation. Their defaults are not written, so that
// a file without them keeps its hash of parameters.
#[test]
fn attention_and_the_base_of_objectives_are_read() {
    let with = |more: &str| {
        let file = File::read(&FILE.replace("prefill: 1", &format!("prefill: 1{more}"))).unwrap();
        let pool = setup(&file, "mfs", 1).unwrap().pools.remove(0);
        (serde_json::to_string(&file).unwrap(), pool.parallel, pool.slo)
    };
    let (text, parallel, slo) = with("");
    assert_eq!((parallel, slo.of), (Parallel::Experts, Base::Own));
    assert_eq!(with(", attention: request, slo: {of: own}").0, text);
    let (text, parallel, slo) = with(", attention: tensor, slo: {of: mean, tight_share: 1}");
    assert_eq!((parallel, slo.of, slo.tight_share), (Parallel::Tensor, Base::Mean, 1.0));
    assert!(text.contains(r#""attention":"tensor""#) && text.contains(r#""of":"mean""#), "{text}");
}

// A trace is refused, by its line or its length, if it ends in the middle of a line, has a request
// without tokens, or is shorter than the run.
#[test]
fn a_bad_trace_names_what_is_wrong() {
    let line = |at: u32, tokens: u32| {
        format!(
            "{{\"timestamp\": {at}, \"input_length\": {tokens}, \"output_length\": 5, \"hash_ids\": [{at}]}}\n"
        )
    };
    let dir = std::env::temp_dir().join(format!("meridian-flow-trace-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let path = dir.join("trace.jsonl");
    let with = |text: &str| {
        std::fs::File::create(&path).unwrap().write_all(text.as_bytes()).unwrap();
        refused("generator: qwen_b, rate: 0.5", &format!("trace: {}", path.display()))
    };
    let whole: String = (0..39).map(|at| line(at * 1000, 400)).collect();
    assert!(
        with(&whole).contains("the trace holds 39 requests, and known and requests ask for 40")
    );
    let cut = with(&(whole.clone() + "{\"timestamp\": 40000, \"inp"));
    assert!(cut.contains("the trace was cut short"), "{cut}");
    let empty = with(&(whole + &line(40_000, 0)));
    assert!(empty.contains("line 40") && empty.contains("input_length"), "{empty}");
    std::fs::remove_dir_all(&dir).unwrap();
}

// Copies of a trace share no prefix, start at different places, and follow the given rate.
#[test]
fn copies_of_a_trace_share_nothing() {
    let ask = |users: f64, known, rate| {
        let load =
            Load { excerpt: Some("mooncake".into()), users: Some(users), rate, ..<_>::default() };
        let wanted = Wanted { known, requests: 300, context: 1 << 20, gpus: 8, seed: 1 };
        load::requests(&load, wanted).map(|asked| asked.requests)
    };
    let once = ask(1.0, 0, Some(0.1)).unwrap();
    let of_three = ask(3.0, 0, Some(0.1)).unwrap();
    let copy = |nth: usize| of_three.iter().skip(nth).step_by(3).collect::<Vec<_>>();
    let same =
        copy(0).iter().zip(&once).all(|(a, b)| (a.tokens, &a.blocks) == (b.tokens, &b.blocks));
    assert!(same, "the first copy is the trace");
    let first: HashSet<u64> = copy(0).iter().flat_map(|one| one.blocks.clone()).collect();
    assert!(copy(1).iter().all(|one| one.blocks.iter().all(|block| !first.contains(block))));
    let tokens = |nth| copy(nth).iter().map(|one| one.tokens).collect::<Vec<_>>();
    assert_ne!(tokens(0), tokens(1));
    let refused = |users, known, rate| ask(users, known, rate).unwrap_err().to_string();
    assert!(refused(1.5, 0, Some(0.1)).contains("users is 1.5: a trace is copied whole"));
    assert_eq!(ask(1e30, 0, Some(0.1)).unwrap().len(), 300);
    assert!(refused(2.0, 0, None).contains("users is 2: copies of a trace need a rate"));
    assert!(refused(2.0, 100_000, Some(0.1)).contains("requests ask for 100300 of it: lower them"));
}

// With eight times the users the requests are those of eight times as many conversations: of 300,
// fewer have an earlier turn just before them.
#[test]
fn more_users_lie_further_apart() {
    let near = |users: Option<f64>| {
        let file = File::read(&FILE.replace("qwen_b", "qwen_a")).unwrap();
        let load = Load { users, ..file.models[0].load.clone() };
        let wanted = Wanted { known: 200, requests: 300, context: 32_768, gpus: 8, seed: 1 };
        let asked = load::requests(&load, wanted)?;
        let all: Vec<&[u64]> =
            asked.known.iter().chain(&asked.requests).map(|one| &one.blocks[..]).collect();
        // Beyond the system prompts' blocks only turns of one conversation match.
        let follows = |at: &usize| {
            let last = |one: &&[u64]| one.len() > 8 && all[*at].contains(&one[one.len() - 1]);
            all[at - 100..*at].iter().any(last)
        };
        anyhow::Ok((200..500).filter(follows).count())
    };
    let (few, many) = (near(None).unwrap(), near(Some(8.0)).unwrap());
    assert!(many * 2 < few, "{many} follow closely in place of {few}");
    let error = near(Some(0.0)).unwrap_err().to_string();
    assert!(error.contains("users is 0: use a number above 0"), "{error}");
}
