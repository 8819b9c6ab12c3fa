"""Runs the notebook in argv[1] in the folder argv[2], and prints the kinds of its cells' outputs, and
whether the Parquet file there has the columns, types and values of the CSV file."""

import os
import sys
from pathlib import Path

import duckdb
import nbformat
import pandas as pd
from nbclient import NotebookClient

notebook = nbformat.read(sys.argv[1], as_version=4)
resources = {"metadata": {"path": sys.argv[2]}}
NotebookClient(notebook, timeout=120, kernel_name="python3", resources=resources).execute()
for cell in notebook.cells:
    if cell.cell_type == "code":
        kinds = {kind for output in cell.outputs for kind in output.get("data", {})}
        print(" ".join(sorted(kinds)))

results = Path(sys.argv[2]) / os.environ["WHAT_IF"]
text = pd.read_csv(results / "what-if.csv")
typed = duckdb.read_parquet(str(results / "what-if.parquet")).df()
# An empty column of the text and a column of nulls are both floats.
pd.testing.assert_frame_equal(typed, text, check_dtype=False, check_column_type=False)
for name in ["replicas", "meets_slo", "ttft_ms.mean", "policy"]:
    print(name, typed[name].dtype.kind)
