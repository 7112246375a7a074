-- How do our results compare with published ones? One row for each published value and each series
-- that matches all its stated axes; the hardware is never the same. Null in `chosen` does not
-- filter; `with_unmatched` adds values and empty cells that no series matches.
with chosen as not materialized (
    select
        null::text as workload,
        null::text as framework,
        false as with_unmatched
)

select
    f.source_document,
    f.figure,
    f.workload,
    f.framework_text,
    f.published_version,
    f.metric,
    f.published_value,
    f.unit,
    f.published_device,
    f.published_dataset,
    round(f.measured_value::numeric, 2) as measured_value,
    case
        when not f.is_unit_doubtful then round((f.measured_value / f.published_value)::numeric, 3)
    end
        as ratio,
    f.measured_is_synthetic,
    f.measured_version,
    f.case_id,
    f.cluster,
    f.measured_at
from marts.fct_reference as f
cross join chosen as c
where
    (c.workload is null or f.workload = c.workload)
    and (c.framework is null or f.framework = c.framework)
    and (c.with_unmatched or f.case_id is not null)
order by f.source_document, f.figure, f.workload, f.reference_id, f.case_id, f.cluster;
