"""The spool: runs as files, from their plan to their ingest, on any fsspec URL.

    <spool>/runs/<run_id>/run.json, planned.json, code.tar.gz, loaded.json
    <spool>/runs/<run_id>/cases/<case_id>/tried.json
    <spool>/runs/<run_id>/cases/<case_id>/g<generation>/
        job.json, progress.json, outcome.json, controller-<epoch>.json,
        fingerprint-<node>.json
        repeat-001/<node>.json, repeat-001/controller.json
    <spool>/dag_runs/<digest>.json    which run a DAG run of Airflow planned
    <spool>/comparisons/<id>/    an experiment: run.json; cases/, result.json; of a bisect steps/
    <spool>/uploads/<sha256>/    a wheel that somebody sent for a comparison

The process that controls a gang writes here, and the ingest reads here; neither needs the other's
disk. On local disks a document appears by rename, so that a reader sees all of it or nothing;
object stores give the same by themselves.
"""

from nightbench.spool.case import CaseOutcome, CaseStore, RepeatOutcome
from nightbench.spool.documents import Document, SpoolError, read_json, utc_now, write_json
from nightbench.spool.run import RunSpool, Spool, open_spool
