"""Commands are run here as in the tests of the other commands."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent.parent / "cli"))
