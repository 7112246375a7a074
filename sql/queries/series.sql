-- Series: medians and verdicts over the nights, noise and drift.

-- name: latest_medians(suite, cluster, run_id)
-- The newest median of each series. A null parameter does not constrain; drills, what was measured
-- to confirm, and private builds show only in their own run.
select distinct on (case_id, cluster) *
from marts.fct_measurement
where
    (:suite::text is null or suite = :suite)
    and (:cluster::text is null or cluster = :cluster)
    and (:run_id::text is null or run_id = :run_id)
    and ((run_kind not in ('drill', 'confirm') and not is_private_build) or run_id = :run_id)
order by case_id asc, cluster asc, started_at desc, run_id desc;

-- name: series_history(case_id, cluster, kinds, before)
-- One series, oldest first: medians that passed the checks, of the run kinds asked for. Private
-- builds are no part of it.
select
    started_at,
    throughput,
    run_id,
    n,
    spread,
    fingerprint_id,
    definition_digest,
    framework_version
from marts.fct_measurement
where
    case_id = :case_id
    and cluster = :cluster
    and run_kind = any(:kinds)
    and not is_private_build
    and (:before::timestamptz is null or started_at < :before)
order by started_at asc, run_id asc;

-- name: series(cluster, suite)
-- Series with nightly results: the suite that measured them last, and how many nights they have.
select
    case_id,
    cluster,
    (array_agg(suite order by is_imported asc, started_at desc))[1] as suite,
    count(*) as nights
from marts.fct_measurement
where
    run_kind = 'nightly'
    and (:cluster::text is null or cluster = :cluster)
group by case_id, cluster
having
    :suite::text is null
    or (array_agg(suite order by is_imported asc, started_at desc))[1] = :suite
order by case_id, cluster;

-- name: store_verdict*!
-- Verdict of a run on a series.
-- Writes only where something differs.
insert into raw.verdict as t (
    run_id,
    case_id,
    cluster,
    kind,
    sentence,
    value,
    baseline,
    change,
    history,
    smallest_slowdown,
    low,
    high,
    since,
    first_bad_run_id,
    last_good_run_id
)
values (
    :run_id,
    :case_id,
    :cluster,
    :kind,
    :sentence,
    :value,
    :baseline,
    :change,
    :history,
    :smallest_slowdown,
    :low,
    :high,
    :since,
    :first_bad_run_id,
    :last_good_run_id
)
on conflict (run_id, case_id) do update set
    cluster = excluded.cluster,
    kind = excluded.kind,
    sentence = excluded.sentence,
    value = excluded.value,
    baseline = excluded.baseline,
    change = excluded.change,
    history = excluded.history,
    smallest_slowdown = excluded.smallest_slowdown,
    low = excluded.low,
    high = excluded.high,
    since = excluded.since,
    first_bad_run_id = excluded.first_bad_run_id,
    last_good_run_id = excluded.last_good_run_id
where t.* is distinct from excluded.*;

-- name: verdicts(run_id)
-- The verdicts of a run.
select
    case_id,
    cluster,
    run_id,
    verdict,
    sentence,
    value,
    baseline,
    change,
    history_nights,
    smallest_slowdown,
    low,
    high,
    since,
    first_bad_run_id,
    last_good_run_id
from marts.fct_verdict
where run_id = :run_id
order by case_id;

-- name: judged_since(cluster, started_at, case_ids)
-- Those of some series that a later nightly run of the same cluster has judged.
select distinct v.case_id
from raw.verdict as v
inner join raw.run as r on v.run_id = r.run_id
where
    r.cluster = :cluster
    and r.run_kind = 'nightly'
    and r.started_at > :started_at
    and v.case_id = any(:case_ids)
order by v.case_id;

-- name: store_noise_event*!
-- A series that a run made noisy, or steady again. What is stored of a run stays.
insert into raw.noise_event (
    case_id, cluster, run_id, at, what, spread, max_spread, sentence
)
values (
    :case_id,
    :cluster,
    :run_id,
    :at,
    :what,
    :spread,
    :max_spread,
    :sentence
)
on conflict do nothing;

-- name: mark_noise_notified*!
-- Marks as notified the series that a run made noisy or steady.
update raw.noise_event set told_at = now()
where run_id = :run_id and told_at is null;

-- name: noise_events(run_id, suite, cluster, until, unnotified, max_rows)
-- Series that became noisy or steady, newest first. A null parameter does not constrain.
select *
from marts.fct_noise_event
where
    (:run_id::text is null or run_id = :run_id)
    and (:suite::text is null or suite = :suite)
    and (:cluster::text is null or cluster = :cluster)
    and (:until::timestamptz is null or at <= :until)
    and (not :unnotified or notified_at is null)
order by at desc, case_id asc
limit :max_rows;

-- name: noisy_before(cluster, run_id, at)
-- Series of a cluster that were noisy when a night began; what the night itself says is left out.
select case_id
from (
    select distinct on (case_id)
        case_id,
        what
    from marts.fct_noise_event
    where
        cluster = :cluster
        and run_id <> :run_id
        and at < :at
    order by case_id asc, at desc, run_id desc
) as newest
where what = 'noisy';

-- name: noisy_series(cluster)
-- The series that are noisy now.
select *
from marts.noisy_series
where :cluster::text is null or cluster = :cluster
order by cluster asc, case_id asc;

-- name: store_drift*!
-- A drift that a run found in a series. When it was notified is kept.
insert into raw.drift as t (
    case_id,
    cluster,
    run_id,
    at,
    level,
    is_news,
    change,
    error,
    nights,
    since,
    seen_run_id,
    seen_at
)
values (
    :case_id,
    :cluster,
    :run_id,
    :at,
    :level,
    :is_news,
    :change,
    :error,
    :nights,
    :since,
    :run_id,
    :at
)
on conflict (case_id, cluster, run_id) do update set
    level = excluded.level,
    is_news = excluded.is_news,
    change = excluded.change,
    error = excluded.error,
    nights = excluded.nights,
    since = excluded.since,
    seen_run_id = excluded.seen_run_id,
    seen_at = excluded.seen_at,
    over_run_id = null,
    over_at = null;

-- name: see_drift*!
-- Updates the figures of the drift of a series that goes on.
update raw.drift set
    change = :change,
    error = :error,
    nights = :nights,
    since = :since,
    seen_run_id = :run_id,
    seen_at = :at
where
    case_id = :case_id
    and cluster = :cluster
    and over_at is null
    and (change, error, nights, since, seen_run_id, seen_at) is distinct from (
        :change::double precision,
        :error::double precision,
        :nights::integer,
        :since::timestamptz,
        :run_id::text,
        :at::timestamptz
    );

-- name: end_drift*!
-- Ends the drift of a series that goes on.
update raw.drift set over_run_id = :run_id, over_at = :at
where case_id = :case_id and cluster = :cluster and over_at is null;

-- name: mark_drift_notified*!
-- Marks a drift as notified.
update raw.drift set told_at = now()
where
    case_id = :case_id
    and cluster = :cluster
    and run_id = :run_id
    and told_at is null;

-- name: drifts(suite, cluster, standing, unnotified, until)
-- Drifts, the largest fall first. A null parameter does not constrain.
select *
from marts.fct_drift
where
    (:suite::text is null or suite = :suite)
    and (:cluster::text is null or cluster = :cluster)
    and (not :standing or over_at is null)
    and (
        not :unnotified
        or (
            is_news
            and notified_at is null
            and over_at is null
            and at <= :until::timestamptz
        )
    )
order by change asc, case_id asc, cluster asc, at asc;
