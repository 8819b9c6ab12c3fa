use std::path::{Path, PathBuf};

use meridian_sim::{Report, Scenario};
use meridian_tools::bits::Bits;

use super::files::read;
use super::part::merge_of;
use super::*;
use crate::experiment::cells::{findings, simulate};
use crate::experiment::plan::Plan;
use crate::experiment::tests::{ENTRY, YAML, stand_in};
use crate::experiment::{Context, Entry, Findings, Options, Outcome, run};

const BUILD: &str = "a build";

/// An experiment whose second round depends on the results of the first.
static TWO_ROUNDS: Entry = Entry { name: "two", yaml: YAML, code: two_rounds, live: None };
/// An experiment without runs.
static NONE: Entry = Entry { name: "none", yaml: YAML, code: no_runs, live: None };

fn two_rounds(context: &Context<'_>) -> anyhow::Result<Findings> {
    let mut plan = Plan::new(&context.spec, context.quick)?;
    let first = simulate(context, &plan)?;
    let best = first.named(1, "ttft_ms.mean").expect("it has a TTFT").mean;
    plan.workloads.truncate(if best < 1000.0 { 1 } else { 2 });
    findings(context, &simulate(context, &plan)?)
}

fn no_runs(_: &Context<'_>) -> anyhow::Result<Findings> {
    Ok(Findings::default())
}

/// A folder of its own for a test.
fn folder(name: &str) -> PathBuf {
    let folder =
        std::env::temp_dir().join(format!("meridian-shards-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    folder
}

fn part(entry: &Entry, text: &str, out: &Path, seeds: u32) -> anyhow::Result<Option<PathBuf>> {
    let shard: Shard = text.parse().map_err(anyhow::Error::msg)?;
    let out = Some(out.to_owned());
    let options = Options { seeds: Some(seeds), out, ..Options::default() };
    share(entry, options, (shard, BUILD), &stand_in, &|_, _, _| ())
}

fn merged(entry: &Entry, folders: &[PathBuf], build: &str) -> anyhow::Result<Outcome> {
    let shards = read(folders)?.context("no shards")?;
    let never = |_: Scenario| -> anyhow::Result<Report> { bail!("a merge simulates nothing") };
    merge_of(entry, &shards, Options::default(), build, &never, &|_, _, _| ())
}

/// Every file of a folder.
fn files(outcome: &Outcome, name: &str) -> Vec<(String, Vec<u8>)> {
    let folder = folder(name);
    outcome.write(&folder).unwrap();
    let list = std::fs::read_dir(&folder).unwrap().flatten();
    let bytes = |path: PathBuf| std::fs::read(path).unwrap();
    let mut files: Vec<_> =
        list.map(|f| (f.file_name().to_string_lossy().into_owned(), bytes(f.path()))).collect();
    files.sort();
    std::fs::remove_dir_all(folder).unwrap();
    files
}

fn whole(entry: &Entry) -> Outcome {
    let out = Some(super::super::folder(entry.name));
    let options = Options { seeds: Some(3), out, ..Options::default() };
    run(entry, options, &stand_in, &|_, _, _| ()).unwrap()
}

fn error<T>(result: anyhow::Result<T>) -> String {
    format!("{:#}", result.err().expect("an error"))
}

// Five shards in two folders, in any order, give the files of the undivided run: the page, the
// plots with their timelines, and results.json. Nothing is simulated for them.
#[test]
fn a_merge_gives_the_same_bytes() {
    let (here, there) = (folder("here"), folder("there"));
    for (shard, out) in
        [("4/5", &here), ("0/5", &here), ("1/5", &there), ("3/5", &there), ("2/5", &here)]
    {
        part(&ENTRY, shard, out, 3).unwrap().expect("it had runs");
    }
    let outcome = merged(&ENTRY, &[here.clone(), there.clone()], BUILD).unwrap();
    let (ours, expected) = (files(&outcome, "merged"), files(&whole(&ENTRY), "whole"));
    assert!(expected.len() > 8, "{}", expected.len());
    assert_eq!(ours, expected);
    [here, there].iter().for_each(|folder| std::fs::remove_dir_all(folder).unwrap());
}

// Runs that depend on the results of others wait for them: the first pass leaves them out, a merge
// says so, and the same commands run them in a second pass. A third has nothing left to do.
#[test]
fn rounds_follow_each_other() {
    let out = folder("rounds");
    let pass = || ["0/2", "1/2"].map(|shard| part(&TWO_ROUNDS, shard, &out, 3).unwrap());
    assert!(pass().iter().all(Option::is_some));
    let early = error(merged(&TWO_ROUNDS, std::slice::from_ref(&out), BUILD));
    assert!(
        early.contains("no results of round 2") && early.contains("run all shards again"),
        "{early}"
    );
    assert!(pass().iter().all(Option::is_some));
    let outcome = merged(&TWO_ROUNDS, std::slice::from_ref(&out), BUILD).unwrap();
    assert_eq!(files(&outcome, "rounds-merged"), files(&whole(&TWO_ROUNDS), "rounds-whole"));
    assert_eq!(pass(), [None, None]);
    std::fs::remove_dir_all(out).unwrap();
}

// Shards that do not belong together are not merged, and the error names the file and the remedy.
#[test]
fn shards_belong_together() {
    let (out, other) = (folder("strict"), folder("other"));
    let both = [out.clone(), other.clone()];
    part(&ENTRY, "0/2", &out, 3).unwrap();
    let alone = std::slice::from_ref(&out);
    let missing = error(merged(&ENTRY, alone, BUILD));
    assert_eq!(missing, "of 2 shards these are missing: 1; run them, or name their folders too");

    part(&ENTRY, "0/2", &other, 3).unwrap();
    let twice = error(merged(&ENTRY, &both, BUILD));
    assert!(twice.contains("are the same shard; remove one of them"), "{twice}");
    part(&ENTRY, "1/3", &folder("other"), 3).unwrap();
    let divided = error(merged(&ENTRY, &both, BUILD));
    assert!(divided.contains("is one of 3 shards"), "{divided}");
    part(&ENTRY, "1/2", &folder("other"), 2).unwrap();
    let seeds = error(merged(&ENTRY, &both, BUILD));
    assert!(seeds.contains("seeds is 2, but 3 in"), "{seeds}");
    let here = error(part(&ENTRY, "0/2", &other, 3));
    assert!(here.contains("seeds of the shards there is 2, here 3; use another folder"), "{here}");

    part(&ENTRY, "1/2", &out, 3).unwrap();
    let build = error(merged(&ENTRY, alone, "another build"));
    assert!(build.starts_with("the build is another build here and a build in"), "{build}");
    let file = out.join("shard-1-of-2.json");
    let text = std::fs::read_to_string(&file).unwrap();
    let changed = |from: &str, to: &str| {
        assert!(text.contains(from), "{from}");
        std::fs::write(&file, sealed(&text.replacen(from, to, 1))).unwrap();
        error(merged(&ENTRY, alone, BUILD))
    };
    let params = changed("\"params\":\"", "\"params\":\"f");
    assert!(params.contains("shard-1-of-2.json: parameters of round 1 are f"), "{params}");
    let fewer = changed("\"results\":[{", "\"results\":[],\"extra\":[{");
    assert!(fewer.contains("shard-1-of-2.json is not the file of a shard"), "{fewer}");
    both.iter().for_each(|folder| std::fs::remove_dir_all(folder).unwrap());
}

/// The text with the sum of its contents, as if a shard had written it.
fn sealed(text: &str) -> String {
    let (_, contents) = text.split_once("\"contents\":").expect("it has contents");
    let sum = params::of_text(&contents[..contents.len() - 1]);
    format!("{{\"sum\":\"{sum}\",\"contents\":{contents}")
}

// A damaged number is not merged: the error names the file, the sum in it and the remedy. A file that
// ends early is none.
#[test]
fn damaged_files_are_refused() {
    let out = folder("damaged");
    let alone = std::slice::from_ref(&out);
    ["0/2", "1/2"].iter().for_each(|shard| drop(part(&ENTRY, shard, &out, 3).unwrap()));
    let file = out.join("shard-1-of-2.json");
    let text = std::fs::read_to_string(&file).unwrap();
    assert_eq!(sealed(&text), text);
    let digit = text.rfind(|c: char| ('1'..='8').contains(&c)).expect("it has numbers");
    let other = char::from(text.as_bytes()[digit] + 1).to_string();
    let mut damaged = text.clone();
    damaged.replace_range(digit..=digit, &other);
    std::fs::write(&file, damaged).unwrap();
    let said = error(merged(&ENTRY, alone, BUILD));
    let known =
        said.contains("shard-1-of-2.json: sum: `") && said.contains("is damaged; remove it");
    assert!(known, "{said}");
    std::fs::write(&file, &text[..text.len() / 2]).unwrap();
    let said = error(merged(&ENTRY, alone, BUILD));
    assert!(
        said.contains("shard-1-of-2.json is not the file of a shard, or it is damaged"),
        "{said}"
    );
    std::fs::remove_dir_all(out).unwrap();
}

// Without runs there is nothing to divide, and a shard's number is below their count.
#[test]
fn a_shard_has_runs() {
    let out = folder("none");
    let none = error(part(&NONE, "0/2", &out, 1));
    assert_eq!(none, "--shard: none has no runs to divide; leave it out");
    for wrong in ["", "1", "2/2", "-1/2", "a/b", "1/0"] {
        let error = wrong.parse::<Shard>().unwrap_err();
        assert!(error.contains("write I/N with I from 0 to N - 1"), "{error}");
    }
    std::fs::remove_dir_all(out).unwrap();
}

// Every number comes back with all its bits.
#[test]
fn numbers_keep_their_bits() {
    let numbers = vec![Some(f64::NAN), Some(-0.0), None, Some(5e-324), Some(0.1 + 0.2)];
    let text = serde_json::to_string(&Bits::store(&numbers)).unwrap();
    let back: Vec<Option<f64>> = Bits::load(serde_json::from_str(&text).unwrap());
    let bits = |all: &[Option<f64>]| all.iter().map(|n| n.map(f64::to_bits)).collect::<Vec<_>>();
    assert_eq!(bits(&back), bits(&numbers));
}
