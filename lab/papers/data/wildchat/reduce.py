#!/usr/bin/env python3
"""Makes hours.csv and lengths.csv from lengths and times of WildChat conversations (see SOURCE.md).

    reduce.py first_prompt_lengths.csv.gz assistant_response_lengths.csv.gz

The first has timestamp_utc and first_prompt_tokens_est, a row a conversation; the second tokens_est,
a row a reply.
"""

import csv
import gzip
import pathlib
import sys

HERE = pathlib.Path(__file__).parent


def rows(path):
    with gzip.open(path, "rt", newline="") as file:
        return list(csv.DictReader(file))


def percentile(values, percent):
    at = percent / 100 * (len(values) - 1)
    low, high = values[int(at)], values[min(int(at) + 1, len(values) - 1)]
    return low + (high - low) * (at - int(at))


prompts, replies = rows(sys.argv[1]), rows(sys.argv[2])
hours = [0] * 24
for row in prompts:
    hours[int(row["timestamp_utc"][11:13])] += 1
with open(HERE / "hours.csv", "w") as out:
    out.write("hour,conversations\n")
    out.writelines(f"{hour},{count}\n" for hour, count in enumerate(hours))
first = sorted(float(row["first_prompt_tokens_est"]) for row in prompts)
reply = sorted(float(row["tokens_est"]) for row in replies)
with open(HERE / "lengths.csv", "w") as out:
    out.write("percent,first_prompt_tokens,reply_tokens\n")
    for percent in range(101):
        out.write(f"{percent},{percentile(first, percent):.0f},{percentile(reply, percent):.0f}\n")
