"""The tests of this folder share the servers of `standins.py`, and look at other folders' files."""

from __future__ import annotations

import os
import sys
from pathlib import Path

# Files of keys that others could read would be refused.
os.umask(0o077)

HERE = Path(__file__).parent

sys.path.insert(0, str(HERE))
sys.path += [str(HERE.parent / name) for name in ("grammar", "profiles")]
sys.path.append(str(HERE.parents[1] / "clients"))
