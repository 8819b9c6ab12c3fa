//! Our policies beside the routers that they are taken from: what the real ones chose was recorded
//! (`reference/SOURCE.md` says how), and here the same requests go through the routing machine.

#[path = "reference/replay.rs"]
mod replay;
#[path = "reference/sequence.rs"]
mod sequence;

use meridian_routing::policy::Given;
use replay::{Choice, Replay, Rule};
use sequence::Event;

const SEQUENCE: &str = include_str!("reference/sequence.txt");
const SGLANG: &str = include_str!("reference/sglang-router.txt");
const SMG: &str = include_str!("reference/smg.txt");
const VLLM: &str = include_str!("reference/vllm-router.txt");
const DYNAMO: &str = include_str!("reference/dynamo.txt");
const TIGHT: &str = " --cache-threshold 0.5 --balance-abs-threshold 8 --balance-rel-threshold 1.1";

fn events() -> Vec<Event> {
    sequence::read(SEQUENCE)
}

/// The choices recorded under `title`.
fn recorded(file: &str, title: &str) -> Vec<u16> {
    let mut lines = file.lines().skip_while(|line| *line != title).skip(1).peekable();
    assert!(lines.peek().is_some(), "there is a recording of {title:?}");
    let digits = lines.take_while(|line| !line.is_empty()).flat_map(str::bytes);
    digits.map(|digit| u16::from(digit - b'0')).collect()
}

fn agreement(choices: &[Choice]) -> f64 {
    let same = choices.iter().filter(|c| c.agrees()).count();
    100.0 * same as f64 / choices.len() as f64
}

fn judge(title: &str, theirs: &[u16], rule: &Rule) -> f64 {
    let events = events();
    let choices = Replay::new(rule).judge(&events, theirs);
    let percent = agreement(&choices);
    let free = Replay::new(rule).run(&events);
    let same = free.iter().zip(theirs).filter(|(a, b)| a == b).count();
    println!(
        "{title}: {percent:.2} % of {}; on its own {:.2} %",
        choices.len(),
        100.0 * same as f64 / choices.len() as f64
    );
    for choice in choices.iter().filter(|c| !c.agrees()).take(40) {
        println!(
            "  request {}: theirs {}, ours {:?} ({}) of {} {:?}",
            choice.id, choice.theirs, choice.ours, choice.why, choice.tokens, choice.rows
        );
    }
    percent
}

#[test]
fn cache_aware() {
    let tight =
        [("cache_threshold", 0.5), ("balance_abs_threshold", 8.0), ("balance_rel_threshold", 1.1)];
    for (name, file) in [("sglang-router", SGLANG), ("smg", SMG), ("vllm-router", VLLM)] {
        for flags in ["", TIGHT] {
            let title = format!("{name} cache_aware{flags}");
            let given = if flags.is_empty() { &[][..] } else { &tight[..] };
            let spill = if name == "smg" { "match" } else { "fleet" };
            let spill = ("spill", Given::Word(spill.into()));
            let given = given.iter().map(|(k, v)| (*k, Given::Number(*v)));
            let params = given.chain([spill]).collect();
            let rule = Rule {
                policy: "sglang_cache_aware",
                params,
                asks: if name == "smg" { 64 } else { 1 },
            };
            judge(&title, &recorded(file, &title), &rule);
        }
    }
}

#[test]
fn turns() {
    for (name, file) in [("sglang-router", SGLANG), ("smg", SMG), ("vllm-router", VLLM)] {
        let title = format!("{name} round_robin");
        let rule = Rule { policy: "round_robin", params: Vec::new(), asks: 1 };
        judge(&title, &recorded(file, &title), &rule);
        let title = format!("{name} power_of_two");
        let rule = Rule { policy: "p2c", params: Vec::new(), asks: 256 };
        judge(&title, &recorded(file, &title), &rule);
    }
    let rule = Rule { policy: "dynamo_kv", params: Vec::new(), asks: 64 };
    judge("dynamo kv", &recorded(DYNAMO, "dynamo kv"), &rule);
    let rule = Rule { policy: "least_outstanding", params: Vec::new(), asks: 64 };
    judge("smg least_load", &recorded(SMG, "smg least_load"), &rule);
    for (title, file) in [("smg consistent_hashing", SMG), ("vllm-router consistent_hash", VLLM)] {
        println!("{title} {:?}", replay::kept_sessions(&events(), &recorded(file, title)));
    }
}
