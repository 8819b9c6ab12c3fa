//! tuner.csv, read by the rules of NCCL's example tuner plugin
//! (`plugins/tuner/example/plugin.c` and its README).

use super::*;

/// The longest line that the plugin's buffer holds, with its end.
const LINE: usize = 256;

#[derive(Debug, PartialEq)]
struct Row {
    from: u64,
    to: u64,
    algorithm: String,
    nodes: i32,
    ranks: i32,
}

impl Row {
    /// As the plugin reads a line: `#` and empty lines are skipped, 8 to 10 fields are separated by
    /// commas and trimmed. Names that the plugin would silently replace with its defaults are
    /// errors here.
    fn read(line: &str) -> Option<Row> {
        assert!(line.len() + 2 <= LINE, "the plugin would cut {line}");
        if line.starts_with('#') || line.is_empty() {
            return None;
        }
        let fields: Vec<&str> = line.split(',').map(str::trim).collect();
        assert!((8..=10).contains(&fields.len()), "{line}");
        let collectives = ["broadcast", "reduce", "allgather", "reducescatter", "allreduce"];
        let algorithms =
            ["tree", "ring", "collnet_direct", "collnet_chain", "nvls", "nvls_tree", "pat"];
        assert!(collectives.contains(&fields[0]), "{line}");
        assert!(algorithms.contains(&fields[3]), "{line}");
        assert!(["ll", "ll128", "simple"].contains(&fields[4]), "{line}");
        let number = |at: usize| fields[at].parse::<i32>().unwrap();
        let any_or_more = |at: usize| number(at) == -1 || number(at) > 0;
        assert!((5..8).all(any_or_more), "{line}");
        assert!(fields.get(8).is_none_or(|_| any_or_more(8)), "{line}");
        assert!(fields.get(9).is_none_or(|_| (-1..=1).contains(&number(9))), "{line}");
        let (from, to) = (fields[1].parse().unwrap(), fields[2].parse().unwrap());
        let algorithm = fields[3].to_owned();
        Some(Row { from, to, algorithm, nodes: number(6), ranks: number(7) })
    }
}

fn rows(files: &Files) -> Vec<Row> {
    file(files, "tuner.csv").lines().filter_map(Row::read).collect()
}

// The reader reads lines of NCCL's own example file.
#[test]
fn the_reader_reads_the_published_example() {
    let row = Row::read("allreduce,1048577,4294967295,ring,ll128,-1,-1,-1,4,-1").unwrap();
    assert_eq!((row.from, row.to, row.nodes, row.ranks), (1_048_577, 4_294_967_295, -1, -1));
    assert_eq!(Row::read("reduce,0,4294967295,tree,simple,-1,-1,-1").unwrap().algorithm, "tree");
    assert_eq!(Row::read("# Broadcast operations - different configs"), None);
}

// For each size of a group, exactly one row matches any message, and every group of more than one
// GPU has rows.
#[test]
fn one_row_matches_each_message() {
    let mut all = every_form();
    all.push(of_testbed("opt-66b"));
    for files in &all {
        let rows = rows(files);
        assert!(!rows.is_empty());
        for one in &rows {
            let same = rows.iter().filter(|row| (row.nodes, row.ranks) == (one.nodes, one.ranks));
            let mut same: Vec<&Row> = same.collect();
            same.sort_by_key(|row| row.from);
            let mut next = 0;
            for row in &same {
                assert_eq!(row.from, next, "{same:?}");
                next = row.to + 1;
            }
            assert_eq!(next, 1 << 32, "{same:?}");
        }
    }
}

// The servers of a row are those of the group, not of the whole instance.
#[test]
fn a_stage_counts_its_own_servers() {
    let (first, second): (Vec<u32>, Vec<u32>) = ((0..8).collect(), (8..16).collect());
    let files = by_hand("llama-3.1-70b", &[(Phase::Prefill, &[&first, &second], false)]);
    assert!(rows(&files).iter().all(|row| (row.nodes, row.ranks) == (1, 8)));
    let across: Vec<u32> = (4..12).collect();
    let files = by_hand("llama-3.1-70b", &[(Phase::Prefill, &[&across], false)]);
    assert!(rows(&files).iter().all(|row| (row.nodes, row.ranks) == (2, 8)));
}
