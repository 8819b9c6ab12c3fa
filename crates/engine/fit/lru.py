#!/usr/bin/env python3
"""Checks the prefix cache's LRU against the curve of a real trace.

    cargo build --release -p meridian-engine --example lru
    python3 crates/engine/fit/lru.py --trace conversation_trace.jsonl.gz

The trace is Mooncake's conversation trace (FAST'25, Apache-2.0). The reference below is a plain LRU
over blocks in a single pool, computed apart from this code.
"""
import argparse
import collections
import gzip
import json
import subprocess

REFERENCE = {1000: 4.5, 3000: 6.5, 10000: 21.2, 30000: 32.6, 50000: 35.5, 100000: 36.4}


def lru(requests, capacity):
    """Share of leading blocks found, with every touched block moved to the young end."""
    cache, found, blocks = collections.OrderedDict(), 0, 0
    for ids in requests:
        blocks += len(ids)
        for block in ids:
            if block not in cache:
                break
            found += 1
        for block in reversed(ids):
            cache.pop(block, None)
            cache[block] = None
        while len(cache) > capacity:
            cache.popitem(last=False)
    return 100 * found / blocks


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--trace", required=True)
    arguments = arguments.parse_args()
    with gzip.open(arguments.trace, "rt") as file:
        requests = [json.loads(line)["hash_ids"] for line in file]
    text = "\n".join(" ".join(map(str, ids)) for ids in requests) + "\n"
    worst = 0.0
    for capacity, reference in REFERENCE.items():
        ours = float(subprocess.run(
            ["target/release/examples/lru", str(capacity)],
            input=text, capture_output=True, text=True, check=True,
        ).stdout)
        plain = lru(requests, capacity)
        worst = max(worst, abs(ours - reference))
        print(f"{capacity:7} blocks: {ours:.2f} % found, plain LRU {plain:.2f}, reference {reference}")
    print(f"largest difference from the reference: {worst:.2f} points")


if __name__ == "__main__":
    main()
