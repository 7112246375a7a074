-- A look at a node.
insert into raw.node_preflight (
    cluster,
    node,
    at,
    run_id,
    address,
    is_reachable,
    level,
    findings,
    problem,
    document,
    clock_offset_s,
    clock_error_s,
    wall_error_s,
    orphans_ended
)
values (
    %(cluster)s,
    %(node)s,
    %(at)s,
    %(run_id)s,
    %(address)s,
    %(is_reachable)s,
    %(level)s,
    %(findings)s,
    %(problem)s,
    %(document)s,
    %(clock_offset_s)s,
    %(clock_error_s)s,
    %(wall_error_s)s,
    %(orphans_ended)s
)
on conflict do nothing;
