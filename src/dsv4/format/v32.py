"""Words of V3.2 alone (format.md, section 11): ordinary text, around results and developers."""

from __future__ import annotations

RESULTS_OPEN = "\n\n<function_results>"
RESULT_OPEN = "\n<result>"
RESULT_CLOSE = "</result>"
RESULTS_CLOSE = "\n</function_results>\n\n"
DEVELOPER_PHRASE = "\n\n# The user's message is: "
