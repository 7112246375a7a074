"""The tests of this folder share the results in `good_results.py`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
