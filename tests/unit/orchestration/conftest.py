from __future__ import annotations

import os
import tempfile

# Airflow reads its settings when it is imported, and makes its home folder.
os.environ.setdefault("AIRFLOW_HOME", tempfile.mkdtemp(prefix="airflow-unit-"))
os.environ.setdefault("AIRFLOW__CORE__LOAD_EXAMPLES", "False")
