"""Reduces two public traces to pairs of lengths: prompt tokens, reply tokens.

reduce.py sharegpt-llama-3.1-8b-300-sps10.jsonl arxiv_summarization_stats_llama2_tokenizer_filtered_v2.csv.gz
"""

import csv
import gzip
import json
import sys


def write(name, pairs):
    with open(name, "w", encoding="utf-8") as out:
        out.write("prompt,reply\n")
        out.writelines(f"{prompt},{reply}\n" for prompt, reply in pairs)


chat, summaries = sys.argv[1:]
opened = gzip.open if chat.endswith(".gz") else open
with opened(chat, "rt", encoding="utf-8") as lines:
    rows = [json.loads(line) for line in lines]
write("chat.csv", [(row["input_length"], row["output_length"]) for row in rows])
with gzip.open(summaries, "rt", encoding="utf-8") as lines:
    rows = list(csv.DictReader(lines))
# Every 47th of 28,257: 602 pairs.
pairs = [(int(float(row["num_prefill_tokens"])), int(float(row["num_decode_tokens"]))) for row in rows[::47]]
write("summaries.csv", pairs)
