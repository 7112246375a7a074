-- The run that a DAG run made; the newest, where its plan was cleared and made again.
select run_id
from staging.run
where
    dag_id = %(dag_id)s
    and dag_run_id = %(dag_run_id)s
order by started_at desc, run_id desc
limit 1;
