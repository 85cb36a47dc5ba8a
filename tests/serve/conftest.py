"""The tests of this folder share the servers of `standins.py`, and look at other folders' files."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent

sys.path.insert(0, str(HERE))
sys.path += [str(HERE.parent / "grammar"), str(HERE.parents[1] / "clients")]
