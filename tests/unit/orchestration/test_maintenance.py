from __future__ import annotations

import os
import time
from pathlib import Path

from nightbench.orchestration.upkeep_dags import expire_logs


def test_old_logs_go_and_nothing_else(tmp_path: Path) -> None:
    old, new = tmp_path / "dag_id=a" / "old.log", tmp_path / "dag_id=a" / "new.log"
    other = tmp_path / "dag_id=a" / "notes.txt"
    alone = tmp_path / "dag_id=b" / "old.log"
    ago = time.time() - 40 * 86400
    for path in (old, new, other, alone):
        path.parent.mkdir(exist_ok=True)
        path.write_text("x")
    for path in (old, other, alone):
        os.utime(path, (ago, ago))

    assert expire_logs(tmp_path, 30) == 2

    assert not old.exists()
    assert new.exists()
    assert other.exists()
    assert not alone.exists()
