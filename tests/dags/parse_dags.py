"""Loads plugins and DAG files as Airflow's DAG processor does and prints what came of it as JSON.

Run as a program of its own: what a parse imports can only be seen in a fresh interpreter.
"""

import json
import sys


def main(dags_folder: str) -> None:
    from airflow import plugins_manager
    from airflow.dag_processing.dagbag import DagBag
    from airflow.serialization.serialized_objects import DagSerialization

    plugins_manager.get_fastapi_plugins()
    plugin_errors = dict(plugins_manager.get_import_errors())
    bag = DagBag(dags_folder)
    import email
    import types

    document = {
        "plugin_errors": plugin_errors,
        "plugins": sorted(str(p["name"]) for p in plugins_manager.get_plugin_info(["name"])),
        "import_errors": bag.import_errors,
        "modules": sorted(sys.modules),
        "standard": {"types": types.__file__, "email": email.__file__},
        "dags": {dag_id: describe(dag) for dag_id, dag in sorted(bag.dags.items())},
        "serialized": {
            dag_id: DagSerialization.to_dict(dag) for dag_id, dag in sorted(bag.dags.items())
        },
    }
    print(json.dumps(document, default=str, sort_keys=True))


def describe(dag):
    return {
        "tags": sorted(dag.tags),
        "doc": dag.doc_md or "",
        "description": dag.description or "",
        "catchup": dag.catchup,
        "max_active_runs": dag.max_active_runs,
        "timeout_s": dag.dagrun_timeout.total_seconds() if dag.dagrun_timeout else None,
        "paused": dag.is_paused_upon_creation,
        "schedule": dag.timetable.__class__.__name__,
        "params": {name: dag.params.get_param(name).schema for name in dag.params},
        "defaults": {name: dag.params[name] for name in dag.params},
        "tasks": {task.task_id: describe_task(task) for task in dag.tasks},
    }


def describe_task(task):
    operator = getattr(task, "operator_class", type(task))
    return {
        "operator": operator if isinstance(operator, str) else operator.__name__,
        "owner": task.owner,
        "retries": task.retries,
        "timeout_s": task.execution_timeout.total_seconds() if task.execution_timeout else None,
        "trigger_rule": str(getattr(task.trigger_rule, "value", task.trigger_rule)),
        "max_active_tis_per_dag": task.max_active_tis_per_dag,
        "max_active_tis_per_dagrun": task.max_active_tis_per_dagrun,
        "upstream": sorted(task.upstream_task_ids),
        "is_mapped": task.is_mapped,
        "outlets": [outlet.name for outlet in task.outlets],
    }


if __name__ == "__main__":
    main(sys.argv[1])
