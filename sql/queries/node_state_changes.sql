-- The history of a cluster's nodes, newest first.
select
    cluster,
    node,
    changed_at,
    state,
    since,
    reasons,
    by_whom
from raw.node_state_change
where
    cluster = %(cluster)s
    and (%(node)s::text is null or node = %(node)s)
order by changed_at desc
limit %(max_rows)s;
