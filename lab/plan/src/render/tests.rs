use super::*;
use crate::import::TopologySpec;
use crate::instance::{Parallel, Phase};
use crate::model::Subject;
use crate::search::plan;
use crate::task::{Lengths, Slo};
use crate::topology::Topology;

mod flags;
mod kubernetes;
mod table;

type Files = Vec<(&'static str, String)>;

const TESTBED: &str = include_str!("../../topologies/heroserve-testbed.yaml");
/// Two servers of eight large GPUs, for instances by hand.
const PAIR: &str = "version: 1
units:
- access: {count: 2}
  servers:
  - {count: 2, gpu: h200, gpus: 8, nvlink: 450GB/s, cards: 8, card_rate: 400Gb/s}
";

/// An instance by hand: its phase, its ranks' GPUs by stage, and whether ranks share experts.
type Given<'a> = (Phase, &'a [&'a [u32]], bool);

fn built(yaml: &str) -> Topology {
    TopologySpec::read(yaml).unwrap().build().unwrap()
}

fn task<'a>(topology: &'a Topology, subject: &'a Subject) -> Task<'a> {
    let lengths = Lengths { mean: 300.0, cv: 0.5 };
    let slo = Slo { ttft: 2.5, tpot: 0.15, attainment: 0.9 };
    Task::new(topology, subject, (lengths, lengths), slo)
}

fn of_testbed(model: &str) -> Files {
    let (topology, subject) = (built(TESTBED), Subject::named(model).unwrap());
    let task = task(&topology, &subject);
    let id = model_id(&subject, None).unwrap();
    rendered(&task, &plan(&task).unwrap()[0], &id)
}

/// The files of instances by hand on two servers of eight GPUs.
fn by_hand(model: &str, instances: &[Given<'_>]) -> Files {
    let (topology, subject) = (built(PAIR), Subject::named(model).unwrap());
    let task = task(&topology, &subject);
    let rated: Vec<Rated> = instances
        .iter()
        .map(|(phase, stages, ep)| {
            let stages: Vec<Vec<GpuId>> =
                stages.iter().map(|stage| stage.iter().map(|gpu| GpuId(*gpu)).collect()).collect();
            let (tp, pp) = (stages[0].len() as u32, stages.len() as u32);
            let parallel = Parallel { tp, pp, ep: *ep };
            Rated::new(&task, Instance { phase: *phase, parallel, stages }).unwrap()
        })
        .collect();
    let id = model_id(&subject, None).unwrap();
    files(&task, &units(&task, rated.iter()), &Served::new(&task, &id))
}

/// Every form of an instance: tensor and pipeline parallel and shared experts, on one server and on
/// two, for both phases.
fn every_form() -> Vec<Files> {
    let (first, second): (Vec<u32>, Vec<u32>) = ((0..8).collect(), (8..16).collect());
    let all: Vec<u32> = (0..16).collect();
    let (left, right) = first.split_at(4);
    vec![
        by_hand(
            "llama-3.1-70b",
            &[
                (Phase::Prefill, &[left], false),
                (Phase::Prefill, &[right], false),
                (Phase::Decode, &[&second], false),
            ],
        ),
        by_hand("llama-3.1-70b", &[(Phase::Prefill, &[&first, &second], false)]),
        by_hand("llama-3.1-70b", &[(Phase::Decode, &[&all], false)]),
        by_hand(
            "mixtral-8x7b",
            &[(Phase::Prefill, &[&first], true), (Phase::Decode, &[&second], true)],
        ),
        by_hand("mixtral-8x7b", &[(Phase::Decode, &[&all], true)]),
    ]
}

fn file<'a>(files: &'a Files, name: &str) -> &'a str {
    &files.iter().find(|(one, _)| *one == name).unwrap().1
}

/// The engine commands of a script.
fn commands<'a>(files: &'a Files, script: &str) -> Vec<&'a str> {
    file(files, script).lines().filter_map(|line| line.trim().strip_prefix("exec ")).collect()
}

/// The values of a variable in a script.
fn exported<'a>(files: &'a Files, script: &str, name: &str) -> Vec<&'a str> {
    file(files, script)
        .split_whitespace()
        .filter_map(|word| word.strip_prefix(name)?.strip_prefix('='))
        .collect()
}

fn ranks(files: &Files) -> usize {
    file(files, "ranks.txt").lines().filter(|line| line.starts_with("rank ")).count()
}

// Every GPU of the plan has one rank, and the number of launched devices equals the number of
// ranks.
#[test]
fn every_rank_is_launched_once() {
    // This needs equal blocks of GPUs on each server; uneven ones go to Ray.
    let mut all = every_form();
    all.push(of_testbed("llama-3.1-8b"));
    for files in &all {
        for script in ["vllm.sh", "sglang.sh"] {
            let devices = exported(files, script, "CUDA_VISIBLE_DEVICES");
            let count: usize = devices.iter().map(|line| line.split(',').count()).sum();
            assert_eq!(count, ranks(files), "{script}\n{}", file(files, script));
        }
    }
}

// Two instances on one server share no port, and the side channels leave room for all ranks.
#[test]
fn instances_of_one_server_share_no_port() {
    let files = &every_form()[0];
    let lines = commands(files, "vllm.sh");
    let port = |line: &str| line.split(" --port ").nth(1).unwrap()[..4].to_owned();
    assert_eq!(lines.iter().map(|line| port(line)).collect::<Vec<_>>(), ["8100", "8101", "8100"]);
    let sides = exported(files, "vllm.sh", "VLLM_NIXL_SIDE_CHANNEL_PORT");
    assert_eq!(sides, ["20000", "20128", "20000"]);
    let bootstrap = "--disaggregation-bootstrap-port";
    let sglang = commands(files, "sglang.sh");
    assert!(sglang[1].contains(&format!("{bootstrap} 8999")), "{}", sglang[1]);
    assert!(!sglang[2].contains(bootstrap), "{}", sglang[2]);
}

// The script of an instance on two servers: who is the head, who answers requests, and what decode
// does when a transfer fails.
#[test]
fn a_script_starts_each_server_of_an_instance() {
    let files = by_hand("mixtral-8x7b", &[(Phase::Decode, &[&[0, 1, 8, 9]], true)]);
    let script = file(&files, "vllm.sh");
    let (_, cases) = script.split_once("case ").unwrap();
    expect_test::expect![[r#"
        "${1-} ${2-0}" in
        "decode-0 0") # on h200-0
            export CUDA_VISIBLE_DEVICES=0,1
            export NCCL_TUNER_CONFIG_FILE=tuner.csv NCCL_COLLNET_ENABLE=0
            export VLLM_NIXL_SIDE_CHANNEL_HOST="${HOST_IP:-h200-0}" VLLM_NIXL_SIDE_CHANNEL_PORT=20000
            if [ -n "${HOST_IP-}" ]; then export VLLM_HOST_IP="$HOST_IP"; fi
            exec vllm serve mistralai/Mixtral-8x7B-Instruct-v0.1 --served-model-name mixtral-8x7b --host 0.0.0.0 --port 8100 --max-model-len 3072 --enable-prompt-tokens-details --data-parallel-size 4 --data-parallel-size-local 2 --enable-expert-parallel --data-parallel-address h200-0 --data-parallel-rpc-port 29500 --kv-transfer-config '{"kv_connector":"NixlConnector","kv_load_failure_policy":"recompute","kv_role":"kv_both"}'
            ;;
        "decode-0 1") # on h200-1
            export CUDA_VISIBLE_DEVICES=0,1
            export NCCL_TUNER_CONFIG_FILE=tuner.csv NCCL_COLLNET_ENABLE=0
            export VLLM_NIXL_SIDE_CHANNEL_HOST="${HOST_IP:-h200-1}" VLLM_NIXL_SIDE_CHANNEL_PORT=20000
            if [ -n "${HOST_IP-}" ]; then export VLLM_HOST_IP="$HOST_IP"; fi
            exec vllm serve mistralai/Mixtral-8x7B-Instruct-v0.1 --served-model-name mixtral-8x7b --max-model-len 3072 --enable-prompt-tokens-details --data-parallel-size 4 --data-parallel-size-local 2 --enable-expert-parallel --data-parallel-address h200-0 --data-parallel-rpc-port 29500 --data-parallel-start-rank 2 --headless --kv-transfer-config '{"kv_connector":"NixlConnector","kv_load_failure_policy":"recompute","kv_role":"kv_both"}'
            ;;
        *)
            echo "usage: $0 INSTANCE [RANK]" >&2
            exit 2
            ;;
        esac
    "#]]
    .assert_eq(cases);
}

// Names that a shell would read otherwise are quoted.
#[test]
fn a_shell_reads_every_word_as_it_is() {
    let (topology, mut subject) = (built(TESTBED), Subject::named("llama-3.1-8b").unwrap());
    subject.name = "my model's $(name)".to_owned();
    let task = task(&topology, &subject);
    let files = rendered(&task, &plan(&task).unwrap()[0], "org/name");
    let quoted = r#"--served-model-name 'my model'\''s $(name)' "#;
    assert!(commands(&files, "vllm.sh").iter().all(|line| line.contains(quoted)));
}

// The gateway's file has every instance as a replica with its phase as role.
#[test]
fn every_instance_is_a_replica() {
    let files = &every_form()[0];
    expect_test::expect![[r#"
        # The gateway in front of the plan's instances: meridian check -c gateway.yaml --live, then
        # meridian gateway -c gateway.yaml. Add tenants or limits before clients reach it.
        version: 1
        listen: 0.0.0.0:8080
        policy: dynamo_kv
        replicas:
        - engine: vllm
          role: prefill
          transfer: nixl
          url: http://h200-0:8100
        - engine: vllm
          role: prefill
          transfer: nixl
          url: http://h200-0:8101
        - engine: vllm
          role: decode
          transfer: nixl
          url: http://h200-1:8100
    "#]]
    .assert_eq(file(files, "gateway.yaml"));
}

// The picture is XML with a square for every GPU of the topology.
#[test]
fn the_picture_has_every_gpu() {
    let files = of_testbed("opt-66b");
    let document = roxmltree::Document::parse(file(&files, "placement.svg")).unwrap();
    let squares = document.descendants().filter(|node| node.attribute("width") == Some("34"));
    assert_eq!(squares.count(), 16);
}
