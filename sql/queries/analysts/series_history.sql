-- How did a series develop? The answer has a row for each night after `since`. `change_percent`
-- compares the night with the median of up to ten earlier nights. These earlier nights may be up to
-- 14 days before `since`. `changed` lists what changed since the previous night: version,
-- definition, code, nodes or the state of the nodes. A parameter in `chosen` that is null selects
-- everything. In a large warehouse, set `case_id`: this file is meant for one series.
with chosen as not materialized (
    select
        null::text as case_id,
        null::text as cluster,
        now() - interval '7 days' as since,
        now() as until
),

nights as materialized (
    select
        m.series_key,
        m.run_key,
        m.run_id,
        m.case_id,
        m.cluster,
        m.started_at,
        m.framework_version,
        m.definition_digest,
        m.fingerprint_id,
        m.node_names,
        m.throughput,
        m.unit,
        m.n,
        m.spread,
        r.code_digest,
        array_agg(m.throughput) over (
            of_series
            rows between 10 preceding and 1 preceding
        ) as throughputs_before,
        lag(m.run_key) over of_series is null as is_first,
        lag(m.framework_version) over of_series as version_before,
        lag(m.node_names) over of_series as nodes_before,
        lag(m.fingerprint_id) over of_series as fingerprint_before,
        lag(m.definition_digest) over of_series as definition_before,
        lag(r.code_digest) over of_series as code_before
    from marts.fct_measurement as m
    inner join staging.run as r on m.run_key = r.run_key
    cross join chosen as c
    where
        m.run_kind = 'nightly'
        and not m.is_private_build
        and m.started_at > c.since - interval '14 days'
        and m.started_at <= c.until
        and (c.case_id is null or m.case_id = c.case_id)
        and (c.cluster is null or m.cluster = c.cluster)
    window of_series as (partition by m.series_key order by m.started_at)
),

-- A fingerprint, or a digest of those of several nodes, stands for the same drivers wherever it is.
drivers as materialized (
    select
        s.fingerprint_id,
        d.driver
    from (
        select distinct on (n.fingerprint_id)
            n.fingerprint_id,
            n.run_id,
            n.case_id
        from nights as n
        cross join chosen as c
        where n.fingerprint_id is not null and n.started_at > c.since
        order by n.fingerprint_id asc, n.started_at desc
    ) as s
    cross join lateral (
        select string_agg(distinct f.value, ', ') as driver
        from marts.fct_measurement_node as n
        inner join marts.fingerprint_field as f on n.fingerprint_id = f.fingerprint_id
        where
            n.run_id = s.run_id
            and n.case_id = s.case_id
            and f.field ~ '^gpus\..*\.driver$'
    ) as d
)

select
    n.case_id,
    n.cluster,
    n.started_at,
    n.framework_version,
    d.driver,
    round(n.throughput::numeric, 2) as throughput,
    n.unit,
    n.n,
    round(n.spread::numeric, 4) as spread,
    round((100 * (n.throughput / b.median_before - 1))::numeric, 2) as change_percent,
    v.kind as verdict,
    v.sentence,
    case
        when not n.is_first
            then
                concat_ws(
                    ', ',
                    case
                        when n.framework_version is distinct from n.version_before then 'version'
                    end,
                    case
                        when
                            n.definition_digest is distinct from n.definition_before
                            then 'definition'
                    end,
                    case when n.code_digest is distinct from n.code_before then 'code' end,
                    case
                        when n.node_names is distinct from n.nodes_before then 'nodes'
                        when
                            n.fingerprint_id is distinct from n.fingerprint_before
                            then 'state of the nodes'
                    end
                )
    end as changed,
    n.run_id
from nights as n
cross join chosen as c
cross join
    lateral (
        select percentile_cont(0.5) within group (order by t.throughput) as median_before
        from unnest(n.throughputs_before) as t (throughput)
    ) as b
left join drivers as d on n.fingerprint_id = d.fingerprint_id
left join raw.verdict as v
    on n.run_key = v.run_key and n.series_key = v.series_key and n.started_at = v.run_at
where n.started_at > c.since
order by n.case_id, n.cluster, n.started_at;
