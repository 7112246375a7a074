"""The tests of this folder share the ranks in `measured_ranks.py`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
