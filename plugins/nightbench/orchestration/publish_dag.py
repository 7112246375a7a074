"""The DAG that writes the site for everybody after a night."""

import logging
import os
from contextlib import closing
from datetime import timedelta

from airflow.sdk import DAG, task

from nightbench.config.airflow_provider import variable
from nightbench.core.errors import UserError
from nightbench.orchestration.connections import WAREHOUSE_READER, connect
from nightbench.orchestration.dag_common import VERDICTS, our_dag, user_errors_fail_task

DOC = """\
### The site for everybody

Runs when a night has been judged, and when its suspects were measured again. Writes what changed of
the site that `nightbench publish` writes, into the folder or object store that the setting `site`
names. Shown is what the key `publish` of suites lets leave, and nothing else.
"""

log = logging.getLogger(__name__)


def publish_dag() -> DAG:
    """The DAG that writes the site; it starts paused, since what it writes leaves the house."""
    with our_dag(
        "nightbench_publish",
        schedule=[VERDICTS],
        dagrun_timeout=timedelta(hours=2),
        is_paused_upon_creation=True,
        description="Writes the static site of what suites let leave",
        doc_md=DOC,
        tags=["publish"],
    ) as dag:
        write_site()
    return dag


@task(doc_md="Writes the files that changed, and removes those of what may leave no longer.")
def write_site() -> str:
    """Write the site; returns what was done, in words."""
    from nightbench.report.site import SiteWriter, published_suites
    from nightbench.report.site_folder import SiteFolder
    from nightbench.warehouse.site import SiteRepository

    with user_errors_fail_task():
        where = os.environ.get(variable("site"))
        if not where:
            raise UserError(
                f"{variable('site')}: found nothing; expected a folder, or the fsspec URL of one "
                "(option site of [nightbench] in airflow.cfg)"
            )
        suites, folder = published_suites(), SiteFolder(where)
        with closing(connect(WAREHOUSE_READER)) as connection:
            stored = SiteRepository(connection, suites)
            SiteWriter(suites, stored, folder, os.environ.get(variable("site_url"), "")).write()
    log.info("%s: %s", folder.root, folder.said)
    return folder.said
