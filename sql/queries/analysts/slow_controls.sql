-- Which nodes or links are slow in control measurements? The newest control measurement of each
-- kind is compared with the median of up to ten earlier measurements of this kind on the same node.
-- Measurements with fewer than three earlier ones are omitted. The slowest comes first. If a case
-- became slower and its nodes did not, check the framework of the case. A parameter in `chosen`
-- that is null selects everything.
with chosen as not materialized (
    select
        null::text as cluster,
        null::timestamptz as until
)

select
    h.cluster,
    h.node,
    h.metric,
    h.device,
    h.backend,
    h.at,
    h.run_id,
    h.median,
    h.unit,
    h.median_before,
    h.nights_before,
    round((100 * (h.ratio - 1))::numeric, 1) as change_percent
from staging.control_series as s
cross join chosen as k
cross join
    lateral (
        select c.at
        from raw.control as c
        where
            c.cluster = s.cluster
            and c.node = s.node
            and c.metric = s.metric
            and c.device = s.device
            and c.backend = s.backend
            and (k.until is null or c.at <= k.until)
        order by c.at desc
        limit 1
    ) as newest
cross join
    lateral (
        -- The newest alone, by its time from the lateral before: without that one the medians before
        -- are looked up for each row of all history, which takes 1,000 times longer.
        select c.*
        from marts.control_history as c
        where
            c.cluster = s.cluster
            and c.node = s.node
            and c.metric = s.metric
            and c.device = s.device
            and c.backend = s.backend
            and c.at = newest.at
        order by c.at desc
        limit 1
    ) as h
where
    (k.cluster is null or s.cluster = k.cluster)
    and h.nights_before >= 3
order by h.ratio asc, h.cluster asc, h.node asc;
