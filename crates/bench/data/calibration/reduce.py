#!/usr/bin/env python3
"""Makes the files of this folder from the published ones. Standard library only.

    python3 crates/bench/data/calibration/reduce.py --silicon e2e_ttft_tpot.csv.gz \
        --llmservingsim CHECKOUT --mooncake conversation_trace.jsonl.gz

SOURCE.md says where the inputs come from. e2e_ttft_tpot.csv.gz is silicon_sample.csv of
aiconfigurator-core with the concurrency parsed out of silicon_data_source into its own column.
"""
import argparse
import csv
import gzip
import json
import os

HERE = os.path.dirname(os.path.abspath(__file__))
# Our file, the run, and the workload that it sent.
RUNS = {
    "llama-3.1-8b": ("RTXPRO6000/Llama-3.1-8B", "llama-3.1-8b"),
    "llama-3.1-8b-rtx4090": ("RTX4090/Llama-3.1-8B", "llama-3.1-8b"),
    "qwen3-32b": ("RTXPRO6000/Qwen3-32B", "qwen3-32b"),
    "qwen3-30b-a3b": ("RTXPRO6000/Qwen3-30B-A3B-Instruct-2507", "qwen3-30b-a3b"),
}
SYSTEMS = {"h100_sxm": "h100", "h200_sxm": "h200"}


def number(text):
    """A count without its '.0'; nothing stays nothing."""
    return str(int(float(text))) if text else ""


def campaign(source):
    """Who measured: NVIDIA's own runs, or SemiAnalysis InferenceX, of which the rest are exports."""
    return "nvidia" if "auto-gap-analysis" in source else "inferencex"


def silicon(path):
    names = ["gpu", "engine", "model", "mode", "campaign", "format", "isl", "osl", "clients", "tp",
             "attention_dp", "moe_tp", "moe_ep", "pp", "ttft_ms", "tpot_ms"]
    with gzip.open(path, "rt") as file, open(f"{HERE}/silicon.csv", "w") as out:
        print(",".join(names), file=out)
        for row in csv.DictReader(file):
            if row["system"] not in SYSTEMS:
                continue
            fields = [
                SYSTEMS[row["system"]], row["backend"], row["model_path"].split("/")[-1].lower(),
                row["mode"], campaign(row["silicon_data_source"]), row["gemm_quant_mode"] or "bf16",
                row["isl"], row["osl"], number(row["concurrency"]), number(row["tp_size"]),
                number(row["attention_dp_size"]), number(row["moe_tp_size"]),
                number(row["moe_ep_size"]), number(row["pp_size"]),
                f"{float(row['silicon_ttft_ms']):.6g}", f"{float(row['silicon_tpot_ms']):.6g}",
            ]
            print(",".join(fields), file=out)


def parents(requests):
    """For each list of chained block ids: the earlier list it shares most with, and how much."""
    owner, found = {}, []
    for index, ids in enumerate(requests):
        shared = 0
        while shared < len(ids) and ids[shared] in owner:
            shared += 1
        found.append((owner[ids[shared - 1]] if shared else 0, shared))
        for block in ids[shared:]:
            owner[block] = index
    return found


def vllm(checkout):
    """Each run of bench/examples, with its prompts from workloads."""
    for name, (run, prompts) in RUNS.items():
        with open(f"{checkout}/workloads/sharegpt-{prompts}-300-sps10.jsonl") as file:
            texts = [json.loads(line) for line in file]
        tokens = [text["input_tok_ids"] + text["output_tok_ids"] for text in texts]
        links = parents([chained(ids) for ids in tokens])
        with open(f"{checkout}/bench/examples/{run}/vllm/requests.jsonl") as file:
            rows = sorted((json.loads(line) for line in file),
                          key=lambda row: int(row["request_id"].removeprefix("bench-")))
        # The front end reads another clock than the engine: the request that was queued soonest after its
        # arrival sets one against the other.
        behind = min(row["queued_ts"] - row["arrival_time"] for row in rows)
        start = min(row["arrival_time"] for row in rows) + behind
        with open(f"{HERE}/vllm-{name}.csv", "w") as out:
            print("arrival_s,prompt,reply,ttft_ms,tpot_ms,parent,shared_blocks", file=out)
            for row, (parent, shared) in zip(rows, links):
                first, last = row["first_token_ts"], row["last_token_ts"]
                arrival = row["arrival_time"] + behind
                ttft = (first - arrival) * 1e3
                tpot = (last - first) * 1e3 / max(row["output_toks"] - 1, 1)
                print(f"{arrival - start:.6f},{row['input_toks']},{row['output_toks']},"
                      f"{ttft:.3f},{tpot:.4f},{parent},{shared}", file=out)


def chained(ids, block=16):
    """A name for each whole block that stands for all tokens up to its end."""
    return [hash(tuple(ids[:end])) for end in range(block, len(ids) + 1, block)]


def mooncake(path):
    with gzip.open(path, "rt") as file:
        requests = [json.loads(line)["hash_ids"] for line in file]
    with open(f"{HERE}/mooncake-blocks.csv", "w") as out:
        print("parent,shared_blocks,blocks", file=out)
        for ids, (parent, shared) in zip(requests, parents(requests)):
            print(f"{parent},{shared},{len(ids)}", file=out)


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("silicon", "llmservingsim", "mooncake"):
        arguments.add_argument(f"--{name}", required=True)
    arguments = arguments.parse_args()
    silicon(arguments.silicon)
    vllm(arguments.llmservingsim)
    mooncake(arguments.mooncake)


if __name__ == "__main__":
    main()
