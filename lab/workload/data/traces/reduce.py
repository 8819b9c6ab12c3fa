#!/usr/bin/env python3
"""Makes the excerpts of this folder (see SOURCE.md).

    reduce.py conversation_trace.jsonl > mooncake.csv
    reduce.py AzureLLMInferenceTrace_conv.csv > azure.csv

The first 20 minutes of a trace, a row a request: arrival in ms, tokens of the prompt and of the
reply. Block ids become the earlier request that a prompt shares most with and how many leading
blocks it shares: the ids of these traces name whole prefixes, so nothing is lost but the numbers.
"""

import datetime
import json
import sys

MINUTES = 20


def mooncake(lines):
    owner = {}
    print("ms,input,output,of,shared")
    for number, line in enumerate(lines):
        row = json.loads(line)
        if row["timestamp"] >= MINUTES * 60_000:
            return
        of, shared = 0, 0
        for block in row["hash_ids"]:
            if block not in owner:
                break
            of, shared = owner[block], shared + 1
        for block in row["hash_ids"]:
            owner.setdefault(block, number)
        print(row["timestamp"], row["input_length"], row["output_length"], of, shared, sep=",")


def azure(lines):
    first = None
    print("ms,input,output")
    for line in lines[1:]:
        time, prompt, reply = line.strip().split(",")
        seconds, ticks = time.split(".")
        # Ticks of 100 ns, seven digits.
        whole = datetime.datetime.fromisoformat(seconds) - datetime.datetime(2023, 1, 1)
        ticks = int(ticks) + 10_000_000 * (whole.days * 86_400 + whole.seconds)
        first = first or ticks
        ms = (ticks - first + 5_000) // 10_000
        if ms >= MINUTES * 60_000:
            return
        print(ms, prompt, reply, sep=",")


with open(sys.argv[1]) as trace:
    lines = trace.readlines()
(mooncake if lines[0].startswith("{") else azure)(lines)
