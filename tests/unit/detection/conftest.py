"""The tests of this folder share the histories in `histories.py`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
