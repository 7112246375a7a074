-- Which figure of a median a verdict and its alert are about: a suite may be judged by another one
-- than throughput.
alter table raw.verdict
add column metric text not null default 'throughput',
add constraint verdict_metric_check check (
    metric in (
        'throughput', 'tokens_per_s_per_device', 'tflops_per_device', 'mfu', 'joules_per_unit',
        'peak_resident_bytes'
    )
) not valid;
comment on column raw.verdict.metric is
'Figure that was judged, by its column in marts.fct_measurement: value and baseline are of it';
comment on column raw.verdict.value is 'The judged figure of this run; see metric';
comment on column raw.verdict.baseline is 'What it was compared with';

alter table raw.alert add column metric text not null default 'throughput';
comment on column raw.alert.metric is 'Figure that it is about; see raw.verdict';
comment on column raw.alert.value is 'The judged figure then; see metric';
drop index raw.alert_one_open_for_each_series;
create unique index alert_one_open_for_each_series on raw.alert (case_id, cluster, metric)
where state in ('open', 'acknowledged');
comment on table raw.alert is
'A verdict that somebody must see, and its life: one live alert for each series and metric';

create or replace function triage.open_alert(
    p_case_id text,
    p_cluster text,
    p_kind text,
    p_sentence text,
    p_value double precision,
    p_baseline double precision,
    p_change double precision,
    p_run_id text
) returns bigint
language plpgsql
security definer
set search_path = pg_catalog, pg_temp as $$
declare
    made bigint;
    judged text;
begin
    -- An alert about a whole suite has no verdict.
    select v.metric into judged
    from raw.run as r
    inner join raw.series as s on s.case_id = p_case_id and s.cluster = p_cluster
    inner join raw.verdict as v
        on v.run_key = r.run_key and v.series_key = s.series_key and v.run_at = r.started_at
    where r.run_id = p_run_id;
    insert into raw.alert (
        case_id, cluster, kind, sentence, value, baseline, change,
        opened_run_id, last_run_id, news_run_id, metric
    )
    values (
        p_case_id, p_cluster, p_kind, p_sentence, p_value, p_baseline, p_change,
        p_run_id, p_run_id, p_run_id, coalesce(judged, 'throughput')
    )
    on conflict do nothing
    returning alert_id into made;
    if made is not null then
        insert into raw.alert_event (alert_id, what, to_state, by_whom, why, run_id)
        values (made, 'opened', 'open', 'nightbench', p_sentence, p_run_id);
    end if;
    return made;
end
$$;
