"""One measurement as an archive from which it is measured again, on any machine.

    README.md           what it is, and the commands
    measurement.json    the median, repeats.json those behind it, fingerprints.json the nodes
    code/               what was shipped to the nodes, with the locks of the framework line
    jobs/<case_id>/job.json, export.json

Code and job come from the spool; if they have left it, the archive holds the rest. No job holds
a secret: `config.env` refuses them in the files that jobs are made from.
"""

import io
import json
import shlex
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from nightbench.core.model import Build, JobSpec
from nightbench.core.reproduce import command_of
from nightbench.night.exported_run import export_document, for_loopback
from nightbench.spool import RunSpool
from nightbench.spool.plans import load_job

Row = Mapping[str, Any]


def write_bundle(
    path: Path,
    run: RunSpool,
    measurement: Row,
    repeats: Sequence[Row],
    fingerprints: Mapping[str, Row],
) -> str | None:
    """Write the archive, a .tar.gz, of a row of `marts.fct_measurement` with its `fct_repeat`s.

    Its files may have left the spool. Returns why it cannot be measured again from the archive
    alone; None if it can.
    """
    case_id = measurement["case_id"]
    job, archive = _job(run, case_id), run.code()
    packed = _files(archive) if archive is not None else {}
    code = {name: content for name, (_, content) in packed.items()}
    lacks = _lacks(job, code)
    files = {
        "measurement.json": _json(measurement),
        "repeats.json": _json(repeats),
        "fingerprints.json": _json(fingerprints),
    }
    if job is not None:
        files[f"jobs/{case_id}/job.json"] = _json(for_loopback(job).to_json())
    if job is not None and lacks is None:
        files["export.json"] = _json(export_document(job.run_id, job.code_digest, [case_id]))
    files["README.md"] = _readme(measurement, job, code, lacks).encode()
    root = f"{measurement['run_id']}-{case_id}"
    with tarfile.open(path, "w:gz") as target:
        for name in sorted(files):
            entry = tarfile.TarInfo(f"{root}/{name}")
            entry.size = len(files[name])
            entry.mtime = int(measurement["started_at"].timestamp())
            target.addfile(entry, io.BytesIO(files[name]))
        for name, (entry, content) in packed.items():
            entry.name = f"{root}/code/{name}"
            target.addfile(entry, io.BytesIO(content))
    return lacks


def _job(run: RunSpool, case_id: str) -> JobSpec | None:
    store = run.latest(case_id)
    if store is None:
        return None
    return load_job(run, case_id, int(store.folder.name.removeprefix("g"))).job


def _lacks(job: JobSpec | None, code: Mapping[str, bytes]) -> str | None:
    if job is None:
        return "the job is no longer in the spool"
    if not code:
        return "the code is no longer in the spool"
    if len(job.nodes) > 1:
        return f"the case needs {len(job.nodes)} nodes, and these steps are for one machine"
    return None


def _files(archive: bytes) -> dict[str, tuple[tarfile.TarInfo, bytes]]:
    """Return the files of a code.tar.gz with their modes, which its digest covers."""
    with tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as packed:
        found = ((entry, packed.extractfile(entry)) for entry in packed if entry.isfile())
        return {entry.name: (entry, stream.read()) for entry, stream in found if stream is not None}


def _json(document: Any) -> bytes:
    return (json.dumps(document, indent=1, default=str, ensure_ascii=False) + "\n").encode()


def _readme(
    measurement: Row, job: JobSpec | None, code: Mapping[str, bytes], lacks: str | None
) -> str:
    case_id, run_id = measurement["case_id"], measurement["run_id"]
    version = measurement["framework_version"] or "unknown"
    parts = [
        f"# {case_id} on {measurement['cluster']}",
        f"Run `{run_id}`, started {measurement['started_at'].isoformat()}: "
        f"{measurement['throughput']:.6g} {measurement['unit']}/s, the median of "
        f"{measurement['n']} repeats. Build `{measurement['build_id']}`, version {version}. "
        f"The data were {'synthetic' if measurement['is_synthetic'] else measurement['data']}.",
    ]
    if job is not None:
        parts.append(
            f"Code digest `{job.code_digest}`, definition digest `{job.definition_digest}`."
        )
    if job is None or lacks is not None:
        parts += ["## Measure it again", f"This archive alone is not enough: {lacks}."]
    else:
        parts += [
            "## Measure it again on one machine",
            "You need Python 3.7 or newer. First create the framework's environment.\n\n"
            + _block(_environment(job, code)),
            "Then, while nothing else runs there:\n\n"
            + _block(
                [
                    f"python3 code/agent.py run .{_python(job, code)}",
                    "python3 code/agent.py compare .",
                ]
            ),
            "The last command prints the median, the original median and their ratio. A second "
            "`run` continues an interrupted one. To start again, remove `nodes`, `repeats` and "
            f"`measured.json` from `jobs/{case_id}`.",
        ]
    parts += [
        "## With Nightbench, on the same or another cluster",
        _block([f"{_command(measurement, job)} --cluster {shlex.quote(measurement['cluster'])}"]),
        "Compare fingerprints.json with the other machine's before you compare results.",
    ]
    return "\n\n".join(parts) + "\n"


def _environment(job: JobSpec, code: Mapping[str, bytes]) -> list[str]:
    build, lock = job.build, _lock(job)
    if build.source != "index":
        digest = f", digest {build.digest}" if build.digest else ""
        return [f"# the build is {build.location}{digest}; it is not in this archive"]
    if lock not in code:
        return ["# the line needs no environment"]
    line = json.loads(code[f"frameworks/{build.line}/framework.json"])
    index = line["variants"][build.variant].get("index", {}).get("url")
    extra = f" --extra-index-url {index}" if index else ""
    commands = [
        f"python{line['python']} -m venv env",
        f"env/bin/pip install --require-hashes{extra} -r code/{lock}",
    ]
    if build.version:
        commands.append(f"env/bin/pip install{extra} {line['package']}=={build.version}")
    return commands


def _lock(job: JobSpec) -> str:
    return f"frameworks/{job.build.line}/requirements-{job.build.variant}.lock"


def _python(job: JobSpec, code: Mapping[str, bytes]) -> str:
    """The option that names the interpreter; none if the agent's own will do."""
    if job.build.source != "index":
        return " --python INTERPRETER"
    return ' --python "$PWD/env/bin/python"' if _lock(job) in code else ""


def _command(measurement: Row, job: JobSpec | None) -> str:
    build = job.build if job is not None else Build(str(measurement["framework"]))
    version = measurement["framework_version"]
    state = vars(build) | {"build_version": build.version, "framework_version": version}
    return command_of(measurement["suite"], measurement["case_id"], None, state)


def _block(commands: Sequence[str]) -> str:
    return "\n".join(["```console", *commands, "```"])
