"""The playground: functions of JSON that compute a page's views of prompts, caches and completions.

The functions take and return JSON, and do no input or output and no HTTP: `page_functions.py` is
the table of them, `serve` mounts it, and `page/` holds the files that a browser loads. The results
are those that the commands print (`dsv4 show`, `diff`, `parse --explain`), computed by the same
code, so the two cannot disagree.
"""
