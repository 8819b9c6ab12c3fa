use super::*;
use crate::import::TopologySpec;
use crate::model::Subject;
use crate::search::plan;
use crate::task::{Lengths, Slo};

fn of_testbed(model: &str) -> Vec<(&'static str, String)> {
    let yaml = include_str!("../../topologies/heroserve-testbed.yaml");
    let topology = TopologySpec::read(yaml).unwrap().build().unwrap();
    let subject = Subject::named(model).unwrap();
    let lengths = Lengths { mean: 300.0, cv: 0.5 };
    let slo = Slo { ttft: 2.5, tpot: 0.15, attainment: 0.9 };
    let task = Task::new(&topology, &subject, (lengths, lengths), slo);
    rendered(&task, &plan(&task).unwrap()[0])
}

fn file<'a>(files: &'a [(&'static str, String)], name: &str) -> &'a str {
    &files.iter().find(|(one, _)| *one == name).unwrap().1
}

// Every GPU of the plan has one rank, and the number of launched devices equals the number of
// ranks.
#[test]
fn every_rank_is_launched_once() {
    // This needs equal blocks of GPUs on each server; uneven ones go to Ray.
    for model in ["llama-3.1-8b"] {
        let files = of_testbed(model);
        let ranks =
            file(&files, "ranks.txt").lines().filter(|line| line.starts_with("rank ")).count();
        for script in ["vllm.sh", "sglang.sh"] {
            let lines = file(&files, script).lines();
            let devices = lines.filter_map(|line| line.strip_prefix("CUDA_VISIBLE_DEVICES="));
            let count: usize = devices
                .map(|line| line.split(' ').next().unwrap_or_default().split(',').count())
                .sum();
            assert_eq!(count, ranks, "{model} {script}\n{}", file(&files, script));
        }
    }
}

// Rows of the tuner's table are consecutive without a gap, and Kubernetes' documents are YAML that
// requests as many GPUs as there are ranks.
#[test]
fn tables_and_manifests_are_whole() {
    let files = of_testbed("llama-3.1-8b");
    let mut next = None;
    for line in file(&files, "tuner.csv").lines().filter(|line| !line.starts_with('#')) {
        let cells: Vec<&str> = line.split(',').collect();
        assert_eq!(cells.len(), 10, "{line}");
        let (from, to): (u64, u64) = (cells[1].parse().unwrap(), cells[2].parse().unwrap());
        assert!(from == 0 || Some(from) == next, "{line}");
        next = Some(to + 1);
    }
    let mut gpus = 0;
    for document in file(&files, "kubernetes.yaml").split("---\n").filter(|one| !one.is_empty()) {
        let value: serde_json::Value = serde_saphyr::from_str(document).unwrap();
        let pod = &value["spec"]["template"]["spec"]["containers"][0];
        let limit = pod["resources"]["limits"]["nvidia.com/gpu"].as_str();
        gpus += limit.map_or(0, |count| count.parse::<usize>().unwrap());
    }
    let ranks = file(&files, "ranks.txt").lines().filter(|line| line.starts_with("rank ")).count();
    assert_eq!(gpus, ranks);
}

// The picture is XML with a square for every GPU of the topology.
#[test]
fn the_picture_has_every_gpu() {
    let files = of_testbed("opt-66b");
    let document = roxmltree::Document::parse(file(&files, "placement.svg")).unwrap();
    let squares = document.descendants().filter(|node| node.attribute("width") == Some("34"));
    assert_eq!(squares.count(), 16);
}
