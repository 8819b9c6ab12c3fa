"""Runs the notebook in argv[1] in the folder argv[2], and prints the kinds of its cells' outputs."""

import sys

import nbformat
from nbclient import NotebookClient

notebook = nbformat.read(sys.argv[1], as_version=4)
resources = {"metadata": {"path": sys.argv[2]}}
NotebookClient(notebook, timeout=120, kernel_name="python3", resources=resources).execute()
for cell in notebook.cells:
    if cell.cell_type == "code":
        kinds = {kind for output in cell.outputs for kind in output.get("data", {})}
        print(" ".join(sorted(kinds)))
