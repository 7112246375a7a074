-- What a case was measured with in some runs: build, code, definition, and the nodes as found.
with nodes as (
    select
        n.run_id,
        n.case_id,
        n.generation,
        n.node,
        -- A node that changed between repeats counts as it was last.
        (array_agg(n.fingerprint_id order by n.repeat desc))[1] as fingerprint_id
    from raw.repeat_node as n
    where n.fingerprint_id is not null
    group by n.run_id, n.case_id, n.generation, n.node
)

select
    p.run_id,
    r.started_at,
    r.code_digest,
    coalesce(m.build_id, p.build_id) as build_id,
    b.line,
    b.variant,
    b.source,
    b.version as build_version,
    b.location,
    m.framework_version,
    coalesce(m.definition_digest, p.definition_digest) as definition_digest,
    m.throughput,
    (
        select jsonb_object_agg(nodes.node, f.document)
        from nodes
        inner join raw.fingerprint as f on nodes.fingerprint_id = f.fingerprint_id
        where
            nodes.run_id = m.run_id
            and nodes.case_id = m.case_id
            and nodes.generation = m.generation
    ) as nodes
from raw.planned_case as p
inner join raw.run as r on p.run_id = r.run_id
left join staging.measurement as m on p.run_id = m.run_id and p.case_id = m.case_id
left join raw.build as b on coalesce(m.build_id, p.build_id) = b.build_id
where
    p.case_id = %(case_id)s
    and p.run_id = any(%(run_ids)s);
