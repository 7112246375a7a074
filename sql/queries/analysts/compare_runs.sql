-- What differs between two runs? The answer has a row for each case that at least one of the two
-- runs measured, the largest change first. If only one run measured the case, `ratio` is empty.
-- Null in `chosen` selects the newest nightly run, and the nightly run of the same suite and
-- cluster before it. `ratio` is `throughput` divided by `other_throughput`; `low` and `high` are
-- the ends of its 95 % interval.
with chosen as not materialized (
    select
        null::text as run_id,
        null::text as other_run_id
),

one as (
    select r.*
    from staging.run as r
    cross join chosen as c
    where
        r.run_id = c.run_id
        or (c.run_id is null and r.run_kind = 'nightly' and not r.is_imported)
    order by r.started_at desc, r.run_id desc
    limit 1
),

other as (
    select r.*
    from staging.run as r
    cross join chosen as c
    cross join one as o
    where
        r.run_id = c.other_run_id
        or (
            c.other_run_id is null
            and r.suite = o.suite
            and r.cluster = o.cluster
            and r.run_kind = 'nightly'
            and r.started_at < o.started_at
        )
    order by r.started_at desc, r.run_id desc
    limit 1
),

of_one as (
    select m.*
    from one as r
    inner join marts.fct_measurement as m on r.run_key = m.run_key and r.started_at = m.started_at
),

of_other as (
    select m.*
    from other as r
    inner join marts.fct_measurement as m on r.run_key = m.run_key and r.started_at = m.started_at
),

compared as (
    select
        a.run_id,
        b.run_id as other_run_id,
        a.framework_version,
        b.framework_version as other_version,
        a.throughput,
        b.throughput as other_throughput,
        coalesce(a.case_id, b.case_id) as case_id,
        coalesce(a.unit, b.unit) as unit,
        a.throughput / b.throughput as ratio,
        -- Null if a median rests on fewer than three repeats.
        sqrt(a.half_width ^ 2 + b.half_width ^ 2) as half_width,
        (a.definition_digest is distinct from b.definition_digest) as is_other_definition
    from of_one as a
    full join of_other as b on a.case_id = b.case_id and a.unit = b.unit
)

select
    case_id,
    run_id,
    other_run_id,
    framework_version,
    other_version,
    round(throughput::numeric, 2) as throughput,
    round(other_throughput::numeric, 2) as other_throughput,
    unit,
    round(ratio::numeric, 4) as ratio,
    round((ratio * exp(-half_width))::numeric, 4) as low,
    round((ratio * exp(half_width))::numeric, 4) as high,
    is_other_definition
from compared
order by abs(ln(ratio)) desc nulls last, case_id asc;
