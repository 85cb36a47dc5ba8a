"""How much is read, and how much is held (recovery.md, promise 7)."""

from __future__ import annotations

# Beyond this many characters it is no tag; no optional white space; no remark between tags.
LONGEST_TAG = 1024
LONGEST_SPACE = 256
LONGEST_REMARK = 256
# Parameters that lost their call are removed up to this many characters.
LONGEST_ORPHANS = 4096
# A role token in content is held for so long, for the answer of a turn that was made up.
LONGEST_MENTION = 4096
# Of a turn that was made up, so much is quoted.
LONGEST_QUOTE = 1024

# Limits that nobody meets by accident.
MOST_CALLS = 1024
MOST_PARAMETERS = 1024
LONGEST_NAME = 512
MOST_DIAGNOSTICS = 1024

# Deeper than this is no JSON to us: readers of the arguments recurse too.
DEEPEST_JSON = 500
