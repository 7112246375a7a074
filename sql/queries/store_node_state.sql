-- Where a node stands now. Writes only where something differs.
insert into raw.node_state as t (cluster, node, state, since, reasons, by_whom, faults)
values (
    %(cluster)s,
    %(node)s,
    %(state)s,
    %(since)s,
    %(reasons)s,
    %(by_whom)s,
    %(faults)s
)
on conflict (cluster, node) do update set
    state = excluded.state,
    since = excluded.since,
    reasons = excluded.reasons,
    by_whom = excluded.by_whom,
    faults = excluded.faults
where t.* is distinct from excluded.*;
