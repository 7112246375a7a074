-- A control measurement.
insert into raw.control (
    cluster,
    node,
    metric,
    device,
    backend,
    at,
    run_id,
    unit,
    median,
    minimum,
    maximum,
    n
)
values (
    %(cluster)s,
    %(node)s,
    %(metric)s,
    %(device)s,
    %(backend)s,
    %(at)s,
    %(run_id)s,
    %(unit)s,
    %(median)s,
    %(minimum)s,
    %(maximum)s,
    %(n)s
)
on conflict do nothing;
