-- What changed on a node between two dates? The parameters `before` and `since` are the two dates.
-- A fingerprint is the state of a node when it measured: hardware, drivers, kernel, clocks. The
-- answer has the fields that differ between the fingerprints at the two dates. The fingerprint at a
-- date is the fingerprint of the last measurement on the node before the date (at most 60 days
-- before). If only one of the two fingerprints has a field, the other value is empty. A parameter
-- in `chosen` that is null selects everything.
with chosen as not materialized (
    select
        now() - interval '30 days' as before,
        now() as since,
        null::text as cluster,
        null::text as node
),

nodes as (
    select
        d.cluster,
        n.node,
        c.before,
        c.since
    from marts.dim_cluster as d
    cross join lateral unnest(d.node_names) as n (node)
    cross join chosen as c
    where
        (c.cluster is null or d.cluster = c.cluster)
        and (c.node is null or n.node = c.node)
),

states as (
    select
        n.cluster,
        n.node,
        t.is_since,
        s.started_at,
        s.fingerprint_id
    from nodes as n
    cross join lateral (values (false, n.before), (true, n.since)) as t (is_since, at)
    cross join lateral (
        select
            r.started_at,
            f.fingerprint_id
        from staging.run as r
        cross join
            lateral (
                select e.fingerprint_id
                from marts.fct_measurement_node as e
                where
                    e.run_key = r.run_key
                    and e.started_at = r.started_at
                    and e.node = n.node
                    and e.fingerprint_id is not null
                order by e.generation desc
                limit 1
            ) as f
        where
            r.cluster = n.cluster
            and r.started_at > t.at - interval '60 days'
            and r.started_at <= t.at
        order by r.started_at desc
        limit 1
    ) as s
),

changed as (
    select
        b.cluster,
        b.node,
        b.fingerprint_id as fingerprint_before,
        s.fingerprint_id as fingerprint_since,
        b.started_at as before_at,
        s.started_at as since_at
    from states as b
    inner join states as s on b.cluster = s.cluster and b.node = s.node
    where not b.is_since and s.is_since and b.fingerprint_id <> s.fingerprint_id
),

fields as (
    select
        c.cluster,
        c.node,
        f.field,
        c.before_at,
        c.since_at,
        max(f.value) filter (where f.fingerprint_id = c.fingerprint_before) as before,
        max(f.value) filter (where f.fingerprint_id = c.fingerprint_since) as since
    from changed as c
    inner join marts.fingerprint_field as f
        on f.fingerprint_id in (c.fingerprint_before, c.fingerprint_since)
    group by c.cluster, c.node, f.field, c.before_at, c.since_at
)

select
    cluster,
    node,
    field,
    before,
    since,
    before_at,
    since_at
from fields
where before is distinct from since
order by cluster, node, field;
