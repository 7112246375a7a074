-- Nights of some series, oldest first: value, versions, digests. Of the raw tables: a list of cases
-- would not reach the indexes through the mart.
with came_back as (
    select distinct on (m.case_id, m.run_id)
        m.*,
        r.started_at,
        r.code_digest
    from raw.measurement as m
    inner join raw.run as r on m.run_id = r.run_id
    where
        m.case_id = any(%(case_ids)s)
        and r.cluster = %(cluster)s
        and r.run_kind = 'nightly'
        and r.started_at <= %(until)s
        and r.started_at > %(until)s - interval '90 days'
    order by m.case_id asc, m.run_id asc, m.generation desc
)

select
    c.case_id,
    c.run_id,
    c.started_at,
    c.throughput,
    c.framework_version,
    c.definition_digest,
    c.code_digest,
    coalesce(b.digest, c.build_id) as build
from came_back as c
left join raw.build as b on c.build_id = b.build_id
where
    c.status = 'ok'
    and c.throughput is not null
    and not exists (
        select 1
        from raw.quarantine as q
        where
            q.run_id = c.run_id
            and q.case_id = c.case_id
            and q.generation = c.generation
            and q.subject = 'measurement'
    )
order by c.started_at asc, c.run_id asc, c.case_id asc;
