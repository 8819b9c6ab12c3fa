#!/usr/bin/env python3
"""Makes the files of this folder from the published ones. Standard library only.

    python3 lab/papers/data/calibration/reduce.py --silicon e2e_ttft_tpot.csv.gz \
        --llmservingsim CHECKOUT --mooncake conversation_trace.jsonl.gz --srt-slurm CHECKOUT

SOURCE.md says where the inputs come from. e2e_ttft_tpot.csv.gz is silicon_sample.csv of
aiconfigurator-core with the concurrency parsed out of silicon_data_source into its own column.
"""
import argparse
import csv
import glob
import gzip
import json
import os
import re

HERE = os.path.dirname(os.path.abspath(__file__))
# Our file, the run, and the workload that it sent.
RUNS = {
    "llama-3.1-8b": ("RTXPRO6000/Llama-3.1-8B", "llama-3.1-8b"),
    "llama-3.1-8b-rtx4090": ("RTX4090/Llama-3.1-8B", "llama-3.1-8b"),
    "qwen3-32b": ("RTXPRO6000/Qwen3-32B", "qwen3-32b"),
    "qwen3-30b-a3b": ("RTXPRO6000/Qwen3-30B-A3B-Instruct-2507", "qwen3-30b-a3b"),
}
SYSTEMS = {"h100_sxm": "h100", "h200_sxm": "h200"}
# The recipes of the disaggregated runs of these systems.
RECIPES = ["trtllm/h100-fp8/*/*/*", "trtllm/h200/*/*/*", "h100/*/*/*", "h200/*/*"]
LABELS = ["system", "backend", "isl", "osl", "concurrency"]
POOL = ["replicas", "gpus", "ranks", "slots", "tokens"]


def number(text):
    """A count without its '.0'; nothing stays nothing."""
    return str(int(float(text))) if text else ""


def campaign(source):
    """Who measured: NVIDIA's own runs, or SemiAnalysis InferenceX, of which the rest are exports."""
    return "nvidia" if "auto-gap-analysis" in source else "inferencex"


def speculative(row):
    """Whether a colocated run had speculative decoding, which no column of the list says.

    InferenceX added it to TensorRT-LLM's single-node runs with its commit bf345672 of
    2026-01-14T22:26:18Z, and measured three seconds later; all other dates have runs without."""
    return (row["mode"] == "agg" and row["backend"] == "trtllm" and "DeepSeek" in row["model_path"]
            and "measured=2026-01-14" in row["silicon_data_source"])


def silicon(path):
    names = ["gpu", "engine", "model", "mode", "campaign", "format", "isl", "osl", "clients", "tp",
             "attention_dp", "moe_tp", "moe_ep", "pp", "ttft_ms", "tpot_ms", "speculative"]
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
                str(int(speculative(row))),
            ]
            print(",".join(fields), file=out)


def disaggregated(path, checkout):
    """The deployment of each measurement with prefill and decode on different replicas.

    The list has the replicas of a few rows, and the slots of none. The recipe of a run has both,
    but the list does not say which recipe it was. Recipes with the row's GPU, engine, lengths and
    requests in flight are candidates."""
    recipes = [recipe(file) for part in RECIPES
               for file in sorted(glob.glob(f"{checkout}/recipes/{part}.yaml"))]
    with gzip.open(path, "rt") as file:
        rows = [row for row in csv.DictReader(file) if row["system"] in SYSTEMS]
    runs = measurements(rows)
    for run in runs:
        run["candidates"] = [r for r in recipes if r and matches(r, run)]
    for run in runs:
        run["known"], run["recipe"] = identify(run, runs)
    with open(f"{HERE}/disaggregated.csv", "w") as out:
        names = [f"{side}_{name}" for side in ("prefill", "decode") for name in POOL]
        print(",".join(["row", "known"] + names), file=out)
        for run in runs:
            pools = run["recipe"]["pools"] if run["recipe"] else [""] * len(names)
            print(",".join(map(str, [run["row"], run["known"]] + pools)), file=out)


def measurements(rows):
    """Equal measurements as one, at the first of their rows."""
    found = {}
    for index, row in enumerate(rows):
        if row["mode"] == "disagg":
            key = row["system"], *(f"{float(row[f'silicon_{t}_ms']):.6g}" for t in ("ttft", "tpot"))
            run = found.setdefault(key, {"row": index, "first": row, "dump": None})
            # Only the dump of the database has the replicas.
            run["dump"] = run["dump"] or (row if row["prefill_num_workers"] else None)
            if "measured=" in row["silicon_data_source"]:
                run["date"] = row["silicon_data_source"].split("measured=")[1][:10]
    return list(found.values())


def recipe(file):
    """Engine, lengths, concurrencies and pools of a recipe; None if it is not disaggregated."""
    with open(file) as text:
        text = text.read()
    trt = "trtllm_config:" in text
    config = text.split("trtllm_config:" if trt else "sglang_config:")[1].split("benchmark:")[0]
    if "    prefill:" not in config:
        return None
    prefill, decode = config.split("    prefill:")[1].split("    decode:")

    def value(part, name, otherwise="0"):
        match = re.search(rf"^ *{name}: *[\"']?([\w.]+)", part, re.M)
        return match.group(1) if match else otherwise

    def pool(part, side):
        names = (["tensor_parallel_size", "enable_attention_dp", "max_batch_size", "max_num_tokens"]
                 if trt else ["tp-size", "enable-dp-attention", "max-running-requests",
                              "chunked-prefill-size"])
        gpus, shared, slots, tokens = (value(part, name) for name in names)
        ranks = int(gpus) if shared == "true" else 1
        # TensorRT-LLM's limits are those of a rank, SGLang's those of all.
        each = 1 if trt else ranks
        return [int(value(text, f"{side}_workers")), int(gpus), ranks, int(slots) // each,
                int(tokens) // each]

    concurrencies = re.search(r'concurrencies: *["\']?([\dx]+)', text).group(1)
    return {
        "gpu": value(text, "gpu_type"), "backend": "trtllm" if trt else "sglang",
        "isl": value(text, "isl"), "osl": value(text, "osl"),
        "clients": concurrencies.split("x"),
        "speculative": "speculative_config:" in decode or "speculative-algorithm:" in decode,
        "pools": pool(prefill, "prefill") + pool(decode, "decode"),
    }


def matches(recipe, run):
    row, dump = run["first"], run["dump"]
    prefill, decode = recipe["pools"][:5], recipe["pools"][5:]
    shared = lambda pool: pool[2] > 1
    if dump:
        replicas = [number(dump[f"{side}_num_workers"]) for side in ("prefill", "decode")]
        if ([str(prefill[0]), str(decode[0])] != replicas
                or shared(decode) != (number(dump["decode_attention_dp_size"]) != "1")):
            return False
    elif recipe["backend"] == "sglang":
        # SGLang's rows without replicas have the prefill replicas' expert parallelism.
        if shared(prefill) != (number(row["prefill_moe_ep_size"]) != "1"):
            return False
    same = ("backend", "isl", "osl")
    return (recipe["gpu"] == SYSTEMS[row["system"]] and all(recipe[n] == row[n] for n in same)
            and number(row["concurrency"]) in recipe["clients"])


def identify(run, runs):
    """How the recipe of a run is known, and the recipe; or why it is not."""
    if not run["first"]["concurrency"]:
        return "clients", None
    plain = [r for r in run["candidates"] if not r["speculative"]]
    if not plain:
        return ("speculative" if run["candidates"] else "unclear"), None
    if len(plain) > 1:
        return "unclear", None
    # Of the dump's rows with one candidate, none is speculative, so we take it that none is.
    if run["dump"] or len(run["candidates"]) == 1:
        return ("dump" if run["dump"] else "only"), plain[0]
    if len(run["candidates"]) > 2:
        return "unclear", None
    def same(other):
        """Of the same month, since the runs were repeated."""
        labels = lambda one: [one["first"][name] for name in LABELS] + [one["date"][:7]]
        return other is not run and labels(other) == labels(run) and plain[0] in other["candidates"]

    twins = [other for other in runs if same(other)]
    if any(twin["dump"] for twin in twins):
        return "speculative", None
    if len(twins) != 1 or twins[0]["candidates"] != run["candidates"]:
        return "unclear", None
    # Two measurements for two recipes that differ in speculative decoding only.
    tpot = lambda one: float(one["first"]["silicon_tpot_ms"])
    return ("slower", plain[0]) if tpot(run) > tpot(twins[0]) else ("speculative", None)


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
    for name in ("silicon", "llmservingsim", "mooncake", "srt-slurm"):
        arguments.add_argument(f"--{name}", required=True)
    arguments = arguments.parse_args()
    silicon(arguments.silicon)
    disaggregated(arguments.silicon, arguments.srt_slurm)
    vllm(arguments.llmservingsim)
    mooncake(arguments.mooncake)


if __name__ == "__main__":
    main()
