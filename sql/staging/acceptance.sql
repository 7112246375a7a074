-- Grain: one row per acceptance of a cluster (a run of `nightbench accept`), configuration of a
-- line and shape (nodes x devices).
create or replace view staging.acceptance as
with tried as (
    select
        r.run_id,
        r.cluster,
        s.framework as line,
        b.variant,
        s.mode,
        s.case_id,
        s.nodes,
        s.devices_per_node,
        s.trainers,
        m.efficiency,
        b.build_id,
        m.framework_version,
        d.driver,
        r.code_digest,
        r.checks_digest,
        r.started_at,
        p.untried,
        case
            when
                m.status is null
                or m.status in ('cancelled', 'left_out')
                or m.reasons -> 0 ->> 'code' = 'no_outcome'
                then 'interrupted'
            when m.status = 'unavailable' then 'skipped'
            when not m.is_good then 'failed'
            when u.check_name = 'mode_reported' then 'not reported'
            else 'passed'
        end as outcome,
        -- The first reason of a failed launch says that it failed, the later ones why.
        coalesce(
            jsonb_path_query_first(m.reasons, '$[*] ? (@.code == "exception")'),
            m.reasons -> 1,
            m.reasons -> 0,
            u.reason,
            m.quarantine_reasons -> 0
        ) as reason
    from raw.run as r
    inner join raw.planned_case as p on r.run_key = p.run_key
    inner join staging.series as s on p.series_key = s.series_key
    inner join raw.build as b on p.build_key = b.build_key
    left join staging.run_driver as d on r.run_id = d.run_id
    left join raw.measurement as m
        on
            p.run_key = m.run_key
            and p.series_key = m.series_key
            and p.run_at = m.run_at
            and not m.is_superseded
    -- The check that refused the repeat; else that no trainer reports the configuration, and
    -- another one may have been in effect.
    left join lateral (
        select
            f.check_name,
            jsonb_build_object(
                'code', 'check_failed',
                'node', null,
                'subject', f.check_name,
                'observed', f.observed,
                'expected', f.expected
            ) as reason
        from raw.failed_check as f
        where
            f.run_key = m.run_key
            and f.series_key = m.series_key
            and f.run_at = m.run_at
            and f.generation = m.generation
            and f.subject = 'repeat'
            and (f.severity = 'fail' or f.check_name = 'mode_reported')
        order by f.severity, f.repeat, f.check_name, f.ordinal
        limit 1
    ) as u on true
    where r.run_kind = 'acceptance'
)

select
    run_id,
    cluster,
    line,
    variant,
    mode,
    case_id,
    nodes,
    devices_per_node,
    trainers,
    efficiency,
    build_id,
    framework_version,
    driver,
    code_digest,
    checks_digest,
    started_at,
    untried,
    outcome,
    reason ->> 'code' as code,
    reason ->> 'node' as node,
    reason ->> 'subject' as subject,
    reason ->> 'observed' as observed,
    reason ->> 'expected' as expected,
    outcome <> 'interrupted'
    and row_number() over (
        partition by
            cluster, line, mode, nodes, devices_per_node, build_id, outcome = 'interrupted'
        order by started_at desc, run_id asc
    ) = 1 as is_newest
from tried;

comment on view staging.acceptance is
'One row per acceptance test of a cluster, configuration of a line and number of nodes and '
'devices, with its outcome';
comment on column staging.acceptance.line is 'Framework line';
comment on column staging.acceptance.variant is 'Variant of the line''s build: cpu, cuda12';
comment on column staging.acceptance.case_id is 'Smoke case that tried it';
comment on column staging.acceptance.trainers is 'Devices that trained';
comment on column staging.acceptance.efficiency is
'Speed-up over one device in the same acceptance, divided by the devices; null if it has none';
comment on column staging.acceptance.driver is
'Driver of the GPUs that the preflight of the run found; null without GPUs';
comment on column staging.acceptance.untried is
'Why the configuration was untried on such devices; null if it was tried';
comment on column staging.acceptance.outcome is
'passed, failed, not reported (all checks passed, but no trainer reports that '
'the configuration was in effect), skipped (a node cannot have the build), interrupted';
comment on column staging.acceptance.code is
'Why the configuration did not pass, as a code; null if it passed';
comment on column staging.acceptance.node is 'Node that the reason is about; null if none';
comment on column staging.acceptance.subject is
'Process, check or device that the reason is about; null if none';
comment on column staging.acceptance.observed is
'Observed value, such as the text of the exception';
comment on column staging.acceptance.expected is 'Expected value';
comment on column staging.acceptance.is_newest is
'The newest test that was not interrupted, of this configuration and shape with this build on '
'this cluster';
