-- The newest events of each node of a cluster, and all that people said: what a person put into
-- quarantine only a person lets out, however much has been seen since.
with numbered as (
    select
        *,
        row_number() over (partition by node order by at desc) as age
    from raw.node_event
    where cluster = %(cluster)s
)

select
    cluster,
    node,
    run_id,
    subject,
    at,
    kind,
    reasons,
    by_whom
from numbered
where age <= %(max_rows)s or kind in ('quarantined', 'released')
order by node, at;
