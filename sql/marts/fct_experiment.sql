-- Grain: one row per experiment.
create or replace view marts.fct_experiment as
select
    e.experiment_id,
    e.name,
    e.kind,
    e.state,
    e.suite,
    e.cluster,
    e.alert_id,
    e.run_id,
    e.requested_by,
    e.requested_at,
    e.queued_at,
    e.priority,
    e.until,
    e.budget_s,
    e.estimate_s,
    e.decided_by,
    e.cancelled_by,
    e.replaced_by,
    e.dag_run_id,
    e.started_at,
    e.ended_at,
    e.spent_s,
    e.spent_at,
    e.why,
    coalesce(e.result ->> 'verdict', e.result ->> 'outcome') as verdict,
    e.request,
    case
        when p.result is null then e.result
        else e.result || jsonb_build_object('profile', p.result)
    end as result,
    case when p.cancelled_by is null then p.state else 'cancelled' end as profile,
    p.why as profile_why
from raw.experiment as e
left join lateral (
    select
        n.state,
        n.cancelled_by,
        n.why,
        n.result
    from raw.experiment as n
    where
        e.kind = 'compare'
        and n.kind = 'profile'
        and n.request ->> 'of' = e.name
    order by n.experiment_id desc
    limit 1
) as p on true;

comment on view marts.fct_experiment is
'One row per experiment: what was requested of comparisons of builds, its state, and its result';
comment on column marts.fct_experiment.verdict is
'compare: B is faster, same, slower or inconclusive; confirm and bisect: the outcome';
comment on column marts.fct_experiment.profile is
'State of the newest profile of a comparison; null: there is none';
comment on column marts.fct_experiment.profile_why is 'Why the profile ended in its state';
comment on column marts.fct_experiment.result is
'The result, as the command of its kind prints it with --json; of a comparison with its profile';
