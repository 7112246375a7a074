-- Grain: one row per acceptance of a cluster (a run of `nightbench accept`), mode of a line and
-- shape (nodes x devices).
create or replace view marts.fct_acceptance as
select
    a.run_id,
    a.cluster,
    a.line,
    a.variant,
    a.mode,
    a.case_id,
    a.nodes,
    a.devices_per_node,
    a.trainers,
    a.efficiency,
    a.plain_ratio,
    a.plain_low,
    a.plain_high,
    a.plain_absent,
    a.build_id,
    a.framework_version,
    a.driver,
    a.code_digest,
    a.checks_digest,
    a.started_at,
    a.untried,
    a.outcome,
    a.code,
    a.node,
    a.subject,
    a.observed,
    a.expected,
    a.is_newest
from staging.acceptance as a;

comment on view marts.fct_acceptance is
'One row per acceptance of a cluster, mode of a line and shape: whether the mode works there';
