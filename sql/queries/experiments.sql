-- Experiments that an alert leads to: confirmations and bisects.

-- name: store_confirmation(alert_id, run_id, state, asked_by, comparison_id, sentence, within_s, detail)
-- Requests a confirmation of an alert. Returns its number; no row where Nightbench has requested
-- one for that alert and run before.
insert into raw.confirmation (
    alert_id,
    run_id,
    state,
    asked_by,
    comparison_id,
    sentence,
    until,
    ended_at,
    detail
)
values (
    :alert_id,
    :run_id,
    :state,
    :asked_by,
    :comparison_id,
    :sentence,
    now() + :within_s * interval '1 second',
    case when :state = 'skipped' then now() end,
    :detail
)
on conflict do nothing
returning confirmation_id;

-- name: begin_confirmation*!
-- Marks a confirmation as running. Changes no row where it is over.
update raw.confirmation
set state = 'running'
where
    confirmation_id = :confirmation_id
    and state in ('wanted', 'running');

-- name: end_confirmation*!
-- Stores the outcome of a confirmation, also of one that was given up meanwhile; one that has ended
-- keeps its outcome.
update raw.confirmation
set
    state = 'ended',
    outcome = :outcome,
    sentence = :sentence,
    ratio = :ratio,
    low = :low,
    high = :high,
    rounds = :rounds,
    detail = detail || :detail,
    ended_at = now()
where
    confirmation_id = :confirmation_id
    and state <> 'ended';

-- name: skip_confirmations*!
-- Gives up confirmations of a run that are not over, so that its message waits no longer.
update raw.confirmation
set
    state = 'skipped',
    sentence = :why,
    ended_at = now()
where
    run_id = :run_id
    and asked_by = 'nightbench'
    and state in ('wanted', 'running')
    and (:every or until <= now())
    and confirmation_id <> all(:apart_from::bigint[]);

-- name: suspects(run_id)
-- Live regressions that are news of a run and unnotified, largest first; snoozed ones are left out.
select
    alert_id,
    case_id,
    value,
    baseline,
    change
from marts.fct_alert
where
    news_run_id = :run_id
    and verdict = 'regressed'
    and state in ('open', 'acknowledged')
    and notified_at is null
    and (snoozed_until is null or snoozed_until <= now())
order by change, case_id;

-- name: confirmations(run_id, alert_id, confirmation_id, states)
-- Confirmations that are pending, running or over, with their series, in the order of their
-- requests: what is expected to bring most for its time first. A null parameter does not constrain.
select
    c.*,
    a.case_id,
    a.cluster,
    c.until <= now() as is_overdue
from raw.confirmation as c
inner join raw.alert as a on c.alert_id = a.alert_id
where
    (:run_id::text is null or c.run_id = :run_id)
    and (:alert_id::bigint is null or c.alert_id = :alert_id)
    and (:confirmation_id::bigint is null or c.confirmation_id = :confirmation_id)
    and (:states::text[] is null or c.state = any(:states))
order by c.confirmation_id;

-- name: alert_confirmations(alert_ids)
-- The latest confirmation of each alert, of the run that it is news of or a later one.
select distinct on (c.alert_id)
    c.alert_id,
    c.outcome,
    c.sentence,
    c.ratio,
    c.low,
    c.high,
    c.rounds
from raw.confirmation as c
inner join raw.alert as a on c.alert_id = a.alert_id
inner join raw.run as doubted on c.run_id = doubted.run_id
inner join raw.run as news on a.news_run_id = news.run_id
where
    c.alert_id = any(:alert_ids)
    and c.state = 'ended'
    and doubted.started_at >= news.started_at
order by c.alert_id asc, c.ended_at desc, c.confirmation_id desc;

-- name: bisects(bisect_id, alert_id, max_rows)
-- Bisects, newest first. A null parameter does not constrain.
select *
from marts.fct_bisect
where
    (:bisect_id::text is null or bisect_id = :bisect_id)
    and (:alert_id::bigint is null or alert_id = :alert_id)
order by started_at desc, bisect_id desc
limit :max_rows;

-- name: bisect_steps(bisect_id)
-- Tests of a bisect, in their order.
select *
from marts.fct_bisect_step
where bisect_id = :bisect_id
order by number;

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
