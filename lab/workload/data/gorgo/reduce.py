#!/usr/bin/env python3
"""Makes first_prompts.csv from the lengths of GORGO's 100 prompts (see SOURCE.md).

    reduce.py lengths.csv > first_prompts.csv

The input has the columns prompt_chars, prompt_words and prompt_tokens_est, a row a prompt in the
order of the benchmark's file.
"""

import csv
import sys

# Prompts as long as each other, in characters and in words, are one text; short ones may be so by
# chance.
LONG_CHARS = 300

first = {}
print("text,tokens")
with open(sys.argv[1], newline="") as lengths:
    for index, row in enumerate(csv.DictReader(lengths)):
        key = (row["prompt_chars"], row["prompt_words"])
        text = index
        if int(row["prompt_chars"]) >= LONG_CHARS:
            text = first.setdefault(key, index)
        print(f"{text},{row['prompt_tokens_est']}")
