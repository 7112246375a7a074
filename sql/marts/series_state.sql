-- Grain: one row per series with something live: an alert, a drift, or noise that silences it.
create or replace view marts.series_state as
with live_alert as (
    select distinct on (case_id, cluster)
        case_id,
        cluster,
        alert_id,
        state,
        kind,
        change
    from raw.alert
    where state in ('open', 'acknowledged')
    order by case_id asc, cluster asc, opened_at desc
)

select
    a.alert_id,
    a.state as alert_state,
    a.kind as alert_verdict,
    a.change as alert_change,
    d.change as drift,
    d.since as drift_since,
    n.sentence as noisy,
    coalesce(a.case_id, d.case_id, n.case_id) as case_id,
    coalesce(a.cluster, d.cluster, n.cluster) as cluster
from live_alert as a
full join marts.drifting_series as d
    on a.case_id = d.case_id and a.cluster = d.cluster
full join marts.noisy_series as n
    on
        coalesce(a.case_id, d.case_id) = n.case_id
        and coalesce(a.cluster, d.cluster) = n.cluster;

comment on view marts.series_state is
'One row per series with a live alert, a drift, or noise because of which a drop opens no alert';
comment on column marts.series_state.alert_verdict is
'Kind of the live alert: regressed, training_changed, failed, unavailable or missing';
comment on column marts.series_state.drift is
'Relative change of a series that drifts; no night of it is a regression';
comment on column marts.series_state.noisy is 'Why it is noisy; null if it is not';
comment on column marts.series_state.case_id is
'Case of the series; with cluster, the key of the series';
comment on column marts.series_state.cluster is
'Cluster of the series; with case_id, the key of the series';
