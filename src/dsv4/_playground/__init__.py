"""The playground: what a page shows of prompts, caches and completions, as functions of JSON.

JSON in, JSON out; no input or output, no HTTP: `page_functions.py` is the table of them, `serve`
mounts it, and `page/` holds the files that a browser loads. What is computed here is what the
commands print (`dsv4 show`, `diff`, `parse --explain`), by the same code, so the two cannot
disagree.
"""
