"""Limits on the text that is read, and that is held (recovery.md, promise 7)."""

from __future__ import annotations

# Most characters of a tag, of optional white space, and of a remark between tags.
LONGEST_TAG = 1024
LONGEST_SPACE = 256
LONGEST_REMARK = 256
# Parameters that lost their call are removed up to this many characters.
LONGEST_ORPHANS = 4096
# A role token in content is held for so long, for the answer of a turn that was made up.
LONGEST_MENTION = 4096
# So many characters of a made-up turn are quoted.
LONGEST_QUOTE = 1024

# Limits that no text meets by accident.
MOST_CALLS = 1024
MOST_PARAMETERS = 1024
LONGEST_NAME = 512
MOST_DIAGNOSTICS = 1024

# Anything nested deeper does not count as JSON: readers of the arguments recurse too.
DEEPEST_JSON = 500
