-- Experiments: requests for comparisons, and what an alert leads to.

-- name: experiments(experiment_id, names, kinds, states, requested_by, alert_ids, run_id, max_rows)
-- Experiments, newest first. A null parameter does not filter.
select *
from marts.fct_experiment
where
    (:experiment_id::bigint is null or experiment_id = :experiment_id)
    and (:names::text[] is null or name = any(:names))
    and (:kinds::text[] is null or kind = any(:kinds))
    and (:states::text[] is null or state = any(:states))
    and (:requested_by::text is null or requested_by = :requested_by)
    and (:alert_ids::bigint[] is null or alert_id = any(:alert_ids))
    and (:run_id::text is null or run_id = :run_id)
order by experiment_id desc
limit :max_rows;

-- name: experiments_spent()
-- Seconds that people's experiments which DAGs measured in the last 24 hours have taken, by cluster
-- and person.
select
    cluster,
    requested_by,
    sum(spent_s) as spent_s
from marts.fct_experiment
where
    spent_at > now() - interval '24 hours'
    and priority < 2
    and dag_run_id is not null
group by cluster, requested_by;

-- name: begin_experiment*!
-- Marks a queued experiment as running. Changes no row where it is not queued any more, or a DAG run
-- measures another one on its cluster. A process at a terminal waits for none.
update raw.experiment as t
set
    state = 'running',
    dag_run_id = :dag_run_id,
    cancelled_by = null,
    started_at = coalesce(t.started_at, now()),
    spent_at = now(),
    why = '',
    ended_at = null
where
    t.name = :name
    and (t.state = 'queued' or (:dag_run_id::text is null and t.state = 'running'))
    and (
        :dag_run_id::text is null
        or not exists (
            select from raw.experiment as other
            where
                other.cluster = t.cluster
                and other.state = 'running'
                and other.dag_run_id is not null
        )
    );

-- name: adopt_experiment*!
-- Continues a running experiment whose DAG run has ended. Changes no row if another DAG run has
-- continued it before.
update raw.experiment
set dag_run_id = :dag_run_id
where
    name = :name
    and state = 'running'
    and dag_run_id = :was;

-- name: spend_experiment(name, dag_run_id, spent_s, result)
-- Notes that a running experiment has taken so much more, and its result so far. Returns who has
-- cancelled it, and whether a night's experiment waits for its cluster; no row where it is another's.
update raw.experiment as t
set
    spent_s = t.spent_s + :spent_s,
    spent_at = now(),
    result = coalesce(:result, t.result)
where
    t.name = :name
    and t.state = 'running'
    and t.dag_run_id is not distinct from :dag_run_id
returning
    t.cancelled_by,
    t.priority < 2
    and t.dag_run_id is not null
    and exists (
        select from raw.experiment as night
        where
            night.cluster = t.cluster
            and night.state = 'queued'
            and night.priority = 2
            and night.until > now()
    ) as is_awaited;

-- name: leave_experiment*!
-- Ends a running experiment, or puts it back into the queue; a cancelled one ends. The reason that
-- a person gave for cancelling it is kept. Also stores the result of one that was given up
-- meanwhile.
update raw.experiment
set
    state = case
        when :state = 'queued' and cancelled_by is not null then 'cancelled'
        else :state
    end,
    why = case when state = 'running' and cancelled_by is not null then why else :why end,
    result = coalesce(:result, result),
    spent_s = spent_s + :spent_s,
    spent_at = now(),
    ended_at = case when :state <> 'queued' or cancelled_by is not null then now() end
where
    name = :name
    and dag_run_id is not distinct from :dag_run_id
    and (
        state = 'running'
        or (state = 'cancelled' and cancelled_by = 'nightbench' and :state = 'done')
    );

-- name: give_up_experiments(why)
-- Cancels the experiments of nights whose time is over, so that messages wait no longer; and those of
-- terminals that have noted nothing for a day, whose process is gone.
update raw.experiment
set
    state = 'cancelled',
    cancelled_by = 'nightbench',
    why = :why,
    ended_at = now()
where
    (priority = 2 and state in ('queued', 'running') and until <= now())
    or (
        state = 'running'
        and dag_run_id is null
        and coalesce(spent_at, started_at) < now() - interval '1 day'
    )
returning experiment_id;

-- name: runs_to_notify()
-- Runs with news that is still to be sent, and with suspects of which the last one ended recently.
-- A message that no channel accepts for longer waits for the daily upkeep.
select distinct e.run_id
from raw.experiment as e
inner join staging.unnotified_alert as u on e.run_id = u.news
where
    e.kind = 'confirm'
    and e.requested_by = 'nightbench'
    and e.ended_at > now() - interval '2 hours'
    -- None that was skipped at once: its run's message did not wait.
    and (e.state <> 'cancelled' or e.cancelled_by is not null)
    and not exists (
        select from raw.experiment as other
        where
            other.run_id = e.run_id
            and other.kind = 'confirm'
            and other.state in ('queued', 'running')
    )
order by e.run_id;

-- name: suspects(run_id)
-- Live regressions and changes of training that are news of a run and unnotified, largest drop first;
-- snoozed ones are left out.
select
    alert_id,
    case_id,
    metric,
    value,
    baseline,
    change
from marts.fct_alert
where
    news_run_id = :run_id
    and verdict in ('regressed', 'training_changed')
    and state in ('open', 'acknowledged')
    and notified_at is null
    and (snoozed_until is null or snoozed_until <= now())
order by change, case_id;

-- name: alert_confirmations(alert_ids)
-- The latest confirmation of each alert, of the run that it is news of or a later one.
select distinct on (c.alert_id)
    c.alert_id,
    c.name,
    c.result
from raw.experiment as c
inner join raw.alert as a on c.alert_id = a.alert_id
inner join raw.run as doubted on c.run_id = doubted.run_id
inner join raw.run as news on a.news_run_id = news.run_id
where
    c.alert_id = any(:alert_ids)
    and c.kind = 'confirm'
    and c.state = 'done'
    and doubted.started_at >= news.started_at
order by c.alert_id asc, c.ended_at desc, c.experiment_id desc;

-- name: version_change(alert_id)
-- The latest two versions of a framework that nights of a series ran with, up to the run that
-- opened an alert: the second is the suspect. No row where there was only one.
with nights as (
    select
        m.run_key,
        m.run_at,
        m.framework_version,
        lag(m.framework_version) over (order by m.run_at, m.run_key) as before,
        lag(m.run_key) over (order by m.run_at, m.run_key) as run_before
    from raw.alert as a
    inner join raw.run as opened on a.opened_run_id = opened.run_id
    inner join raw.series as s on a.case_id = s.case_id and a.cluster = s.cluster
    inner join raw.measurement as m
        on s.series_key = m.series_key and opened.started_at >= m.run_at
    where
        a.alert_id = :alert_id
        and m.is_good
        and m.run_kind = 'nightly'
        and m.framework_version is not null
)

select
    bad.suite,
    n.before as good,
    n.framework_version as bad,
    good.run_id as good_run_id,
    bad.run_id as bad_run_id
from nights as n
inner join raw.run as good on n.run_before = good.run_key
inner join raw.run as bad on n.run_key = bad.run_key
where n.before <> n.framework_version
order by n.run_at desc, n.run_key desc
limit 1;
