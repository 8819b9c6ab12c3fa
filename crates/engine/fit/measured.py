#!/usr/bin/env python3
"""Judges the engine on a measured vLLM run, request by request.

    cargo build --release -p meridian-engine --example replay
    python3 crates/engine/fit/measured.py --run DIR --prompts FILE

DIR holds `rtxpro6000_llama31_8b_tp1_requests.csv` (casys-kaist/LLMServingSim, bench/examples, MIT:
Llama-3.1-8B, vLLM 0.19, one RTX PRO 6000, 300 requests at 10 a second, which is above capacity, so
that queueing makes the TTFT). FILE is that run's prompts as block ids. The GPU is in no table here:
its datasheet (1,792 GB/s, 96 GB, 503.8 dense bf16 TFLOPS) and two coefficients fitted on the first
100 requests, the memory share and the compute share. Everything else is the H100's. Judged on the
other 200.
"""
import argparse
import csv
import gzip
import json
import math
import statistics
import subprocess

GPU = "bytes=102e9 bandwidth=1792e9 flops=503.8e12 budget=2048 seqs=128"


def engine(requests, memory, compute):
    fields = f"{GPU} memory={memory} compute={compute} attention={compute * 0.91}"
    lines = [f"llama-3.1-8b h100 1 {fields}"] + requests
    out = subprocess.run(
        ["target/release/examples/replay"], input="\n".join(lines) + "\n",
        capture_output=True, text=True, check=True,
    ).stdout
    return [tuple(map(float, line.split())) for line in out.splitlines()]


def load(directory, prompts):
    with open(f"{directory}/rtxpro6000_llama31_8b_tp1_requests.csv") as file:
        rows = list(csv.DictReader(file))
    with gzip.open(prompts, "rt") as file:
        blocks = [json.loads(line)["hash_ids_with_output"] for line in file]
    requests = [
        " ".join([row["arrival_s"], row["input_toks"], row["output_toks"], *map(str, ids)])
        for row, ids in zip(rows, blocks)
    ]
    measured = [tuple(float(row[name]) for name in ("ttft_ms", "tpot_ms", "e2e_ms")) for row in rows]
    return requests, measured


def errors(results, measured, which):
    return [abs(ours[which] / theirs[which] - 1) for ours, theirs in zip(results, measured)]


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--run", required=True)
    arguments.add_argument("--prompts", required=True)
    arguments = arguments.parse_args()
    requests, measured = load(arguments.run, arguments.prompts)

    def loss(memory, compute):
        results = engine(requests, memory, compute)[:100]
        return sum(
            abs(math.log(ours[which] / theirs[which]))
            for ours, theirs in zip(results, measured) for which in (0, 1)
        )

    best = min(
        ((loss(m / 100, c / 100), m / 100, c / 100)
         for m in range(60, 100, 3) for c in range(30, 100, 5)),
    )
    _, memory, compute = best
    results = engine(requests, memory, compute)
    print(f"RTX PRO 6000: memory={memory} compute={compute}")
    for name, part in (("first 100 (fitted)", slice(0, 100)), ("other 200 (judged)", slice(100, None))):
        for which, what in ((0, "TTFT"), (1, "TPOT"), (2, "E2E")):
            found = sorted(errors(results[part], measured[part], which))
            print(f"  {name}: {what} median error {statistics.median(found):.1%}, "
                  f"P90 {found[int(len(found) * 0.9)]:.1%}")


if __name__ == "__main__":
    main()
