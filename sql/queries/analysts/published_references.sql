-- How do our results compare with published values? The answer has a row for each published value
-- and each series that has all axes that the publication states. The hardware is never the same.
-- With `with_unmatched` set to true, the answer also has the published values, and the empty cells
-- of published tables, that no series matches. A parameter in `chosen` that is null selects
-- everything.
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
