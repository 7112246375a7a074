-- Where the nodes of a cluster stand.
select
    cluster,
    node,
    state,
    since,
    reasons,
    by_whom,
    faults
from raw.node_state
where cluster = %(cluster)s
order by node;
