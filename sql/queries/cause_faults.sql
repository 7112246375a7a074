-- Nodes that made cases of some runs fail. The subject is the case with its generation.
select
    run_id,
    node,
    subject,
    reasons
from raw.node_event
where
    cluster = %(cluster)s
    and run_id = any(%(run_ids)s)
    and kind = 'fault'
    and subject <> 'preflight'
order by run_id, node, subject;
