-- Alerts: verdicts that a person must see, and their life. One place says which moves are allowed:
-- the functions of schema triage. Only they write states.
create table raw.alert (
    alert_id bigint generated always as identity primary key,
    case_id text not null,
    cluster text not null,
    kind text not null,
    state text not null default 'open'
    check (state in ('open', 'acknowledged', 'resolved', 'dismissed')),
    sentence text not null,
    value double precision,
    baseline double precision,
    change double precision,
    opened_run_id text not null references raw.run (run_id),
    opened_at timestamptz not null default now(),
    last_run_id text not null references raw.run (run_id),
    resolved_run_id text references raw.run (run_id),
    closed_at timestamptz,
    dismissed_as text check (dismissed_as in ('false_alarm', 'intended', 'wont_fix')),
    snoozed_until timestamptz,
    owner text check (owner <> '' and raw.is_plain(owner, 200)),
    news_run_id text not null references raw.run (run_id),
    grown_from double precision,
    suspect text check (suspect in ('recovered', 'worse')),
    suspect_run_id text references raw.run (run_id),
    suspect_at timestamptz,
    metric text not null default 'throughput',
    foreign key (case_id, cluster) references raw.series (case_id, cluster),
    unique (case_id, cluster, metric, opened_run_id),
    check ((closed_at is null) = (state in ('open', 'acknowledged'))),
    constraint dismissed_has_reason check ((dismissed_as is null) = (state <> 'dismissed'))
);
create unique index alert_one_open_for_each_series on raw.alert (case_id, cluster, metric)
where state in ('open', 'acknowledged');
create index alert_by_opening on raw.alert (opened_at desc);
comment on table raw.alert is
'A verdict that needs a user, and its state: one live alert for each series and metric';
comment on column raw.alert.alert_id is 'Number of the alert';
comment on column raw.alert.case_id is 'Case of the series; with cluster, the key of the series';
comment on column raw.alert.cluster is 'Cluster of the series; with case_id, the key of the series';
comment on column raw.alert.kind is 'The verdict';
comment on column raw.alert.state is
'State of the alert; alerts that are open or acknowledged are live';
comment on column raw.alert.sentence is 'Evidence of the run in last_run_id';
comment on column raw.alert.value is 'Value of the metric in the run of last_run_id';
comment on column raw.alert.baseline is 'Value with which `value` is compared';
comment on column raw.alert.change is 'value / baseline - 1';
comment on column raw.alert.opened_run_id is 'Run that opened the alert';
comment on column raw.alert.opened_at is 'When';
comment on column raw.alert.last_run_id is
'Latest run that opened, reopened or continued the alert';
comment on column raw.alert.resolved_run_id is
'Run that confirmed the recovery; on a dismissed alert: its event is over';
comment on column raw.alert.closed_at is
'Time at which the alert was resolved or dismissed; null while it is live';
comment on column raw.alert.dismissed_as is 'Why a person dismissed it';
comment on column raw.alert.snoozed_until is
'No message before this time; then the alert is reported again if it is still live';
comment on column raw.alert.owner is 'Owner of the alert; null without an owner';
comment on column raw.alert.news_run_id is
'Run whose message reports the alert: it opened or reopened the alert, ended its snooze, or '
'found that it has grown';
comment on column raw.alert.grown_from is
'Change that was notified before the drop grew; null if the alert is not notified because of '
'growth';
comment on column raw.alert.suspect is
'Result of one night that a second night must confirm: recovered, or worse than the notified or '
'dismissed level';
comment on column raw.alert.suspect_run_id is 'Run of the night with the result in suspect';
comment on column raw.alert.suspect_at is 'Start of the run in suspect_run_id';
comment on column raw.alert.metric is 'Metric of the alert, see raw.verdict; training: the losses';

create table raw.alert_event (
    event_id bigint generated always as identity primary key,
    alert_id bigint not null references raw.alert (alert_id),
    at timestamptz not null default clock_timestamp(),
    what text not null
    check (
        what in ('opened', 'continued', 'grew', 'moved', 'over', 'snoozed', 'woke', 'assigned')
    ),
    from_state text,
    to_state text not null,
    by_whom text not null check (by_whom <> '' and raw.is_plain(by_whom, 200)),
    why text not null default '' check (raw.is_plain(why, 4000)),
    run_id text references raw.run (run_id),
    db_role text not null default session_user
);
create index alert_event_by_alert on raw.alert_event (alert_id, event_id);
comment on table raw.alert_event is
'All changes of alerts, by users and by nightbench; append-only';
comment on column raw.alert_event.event_id is 'Number of the event, in the order of time';
comment on column raw.alert_event.alert_id is 'Number of the alert';
comment on column raw.alert_event.at is 'When';
comment on column raw.alert_event.what is 'Event';
comment on column raw.alert_event.from_state is 'Previous state; null for the opening of the alert';
comment on column raw.alert_event.to_state is 'New state';
comment on column raw.alert_event.by_whom is 'nightbench, or the user, as the caller names them';
comment on column raw.alert_event.why is 'Reason in words, of the user or of nightbench';
comment on column raw.alert_event.run_id is 'Run that caused the event; null if a user did';
comment on column raw.alert_event.db_role is
'Database role that was logged in; a caller cannot select it';

create function triage.refuse_rewriting() returns trigger
language plpgsql as $$
begin
    raise exception using message = 'the history of alerts is only ever added to';
end
$$;
create trigger append_only before update or delete or truncate on raw.alert_event
for each statement execute function triage.refuse_rewriting();

-- An event that leaves the state as it is.
create function triage.add_event(
    p_alert_id bigint, p_what text, p_by text, p_why text, p_run_id text
) returns void
language sql
set search_path = pg_catalog, pg_temp as $$
    insert into raw.alert_event (alert_id, what, from_state, to_state, by_whom, why, run_id)
    select p_alert_id, p_what, a.state, a.state, p_by, p_why, p_run_id
    from raw.alert as a
    where a.alert_id = p_alert_id
$$;

-- The one place that knows which moves are allowed. Returns the state before.
create function triage.apply_move(
    p_alert_id bigint,
    p_to text,
    p_by text,
    p_why text,
    p_reason text,
    p_run_id text
) returns text
language plpgsql
security definer
set search_path = pg_catalog, pg_temp as $$
declare
    found raw.alert;
    other bigint;
begin
    select * into found from raw.alert where alert_id = p_alert_id for update;
    if found.alert_id is null then
        raise exception using message = 'there is no alert ' || p_alert_id;
    end if;
    if not (
        (found.state = 'open' and p_to in ('acknowledged', 'resolved', 'dismissed'))
        or (found.state = 'acknowledged' and p_to in ('open', 'resolved', 'dismissed'))
        or (found.state in ('resolved', 'dismissed') and p_to = 'open')
    ) then
        raise exception using message = 'alert ' || p_alert_id || ' is ' || found.state
            || ' and cannot become ' || coalesce(p_to, 'null');
    end if;
    if p_to = 'dismissed'
        and (p_reason is null or p_reason not in ('false_alarm', 'intended', 'wont_fix')) then
        raise exception using message = 'an alert is dismissed as false_alarm, intended or '
            || 'wont_fix, found ' || coalesce(p_reason, 'nothing');
    end if;
    if p_to <> 'dismissed' and p_reason is not null then
        raise exception using message = 'only a dismissed alert has a reason';
    end if;
    if p_to = 'open' then
        select alert_id into other from raw.alert
        where case_id = found.case_id and cluster = found.cluster and metric = found.metric
            and alert_id <> p_alert_id and state in ('open', 'acknowledged');
        if other is not null then
            raise exception using message = 'alert ' || p_alert_id || ' cannot be reopened: its '
                || 'series has the live alert ' || other;
        end if;
    end if;
    update raw.alert
    set
        state = p_to,
        dismissed_as = p_reason,
        closed_at = case when p_to in ('open', 'acknowledged') then null else now() end,
        resolved_run_id = case when p_to = 'resolved' then p_run_id end,
        snoozed_until = case when p_to in ('open', 'acknowledged') then snoozed_until end,
        suspect = null,
        suspect_run_id = null,
        suspect_at = null
    where alert_id = p_alert_id;
    insert into raw.alert_event (alert_id, what, from_state, to_state, by_whom, why, run_id)
    values (
        p_alert_id, 'moved', found.state, p_to, p_by,
        concat_ws(': ', p_reason, nullif(p_why, '')), p_run_id
    );
    return found.state;
end
$$;

-- Actions of people ---------------------------------------------------------------------------

create function triage.check_person(p_by text) returns void
language plpgsql
set search_path = pg_catalog, pg_temp as $$
begin
    if coalesce(trim(p_by), '') in ('', 'nightbench') then
        raise exception using message = 'who moves an alert has a name of their own, found "'
            || coalesce(p_by, '') || '"';
    end if;
end
$$;

create function triage.move_alert(
    p_alert_id bigint,
    p_to text,
    p_by text,
    p_why text default '',
    p_reason text default null
) returns text
language plpgsql
security definer
set search_path = pg_catalog, pg_temp as $$
begin
    perform triage.check_person(p_by);
    if p_to is null then
        raise exception using message = 'an alert becomes acknowledged, resolved, dismissed or '
            || 'open, found nothing';
    end if;
    return triage.apply_move(p_alert_id, p_to, p_by, p_why, p_reason, null);
end
$$;
comment on function triage.move_alert is
'A user changes an alert to acknowledged, resolved, dismissed (with reason) or open; returns '
'the previous state';

create function triage.live_alert(p_alert_id bigint, p_doing text) returns text
language plpgsql
security definer
set search_path = pg_catalog, pg_temp as $$
declare
    was text;
begin
    select state into was from raw.alert where alert_id = p_alert_id for update;
    if was is null then
        raise exception using message = 'there is no alert ' || p_alert_id;
    end if;
    if was not in ('open', 'acknowledged') then
        raise exception using message = 'alert ' || p_alert_id || ' is ' || was
            || ' and cannot be ' || p_doing;
    end if;
    return was;
end
$$;

create function triage.snooze_alert(
    p_alert_id bigint,
    p_until timestamptz,
    p_by text,
    p_why text default ''
) returns text
language plpgsql
security definer
set search_path = pg_catalog, pg_temp as $$
declare
    was text;
begin
    perform triage.check_person(p_by);
    was := triage.live_alert(p_alert_id, 'snoozed');
    if p_until is null or p_until <= now() or p_until > now() + interval '366 days' then
        raise exception using message = 'an alert is snoozed until a time to come, a year ahead '
            || 'at most, found ' || coalesce(p_until::text, 'nothing');
    end if;
    update raw.alert set snoozed_until = p_until where alert_id = p_alert_id;
    perform triage.add_event(
        p_alert_id, 'snoozed', p_by,
        concat_ws(': ', 'until ' || to_char(p_until at time zone 'utc', 'YYYY-MM-DD HH24:MI')
            || ' UTC', nullif(p_why, '')), null
    );
    return was;
end
$$;
comment on function triage.snooze_alert is
'Sends no message of a live alert before a given time, at most a year ahead';

create function triage.assign_alert(
    p_alert_id bigint,
    p_owner text,
    p_by text,
    p_why text default ''
) returns text
language plpgsql
security definer
set search_path = pg_catalog, pg_temp as $$
declare
    was text;
begin
    perform triage.check_person(p_by);
    was := triage.live_alert(p_alert_id, 'assigned');
    update raw.alert set owner = nullif(trim(p_owner), '') where alert_id = p_alert_id;
    perform triage.add_event(
        p_alert_id, 'assigned', p_by,
        concat_ws(': ', 'to ' || coalesce(nullif(trim(p_owner), ''), 'nobody'), nullif(p_why, '')),
        null
    );
    return was;
end
$$;
comment on function triage.assign_alert is 'Sets the owner of a live alert; empty: no owner';

-- Actions of a night ------------------------------------------------------------------------

create function triage.open_alert(
    p_case_id text,
    p_cluster text,
    p_kind text,
    p_sentence text,
    p_value double precision,
    p_baseline double precision,
    p_change double precision,
    p_run_id text,
    p_metric text
) returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp as $$
declare
    made bigint;
    found raw.alert;
begin
    insert into raw.alert (
        case_id, cluster, kind, sentence, value, baseline, change,
        opened_run_id, last_run_id, news_run_id, metric
    )
    values (
        p_case_id, p_cluster, p_kind, p_sentence, p_value, p_baseline, p_change,
        p_run_id, p_run_id, p_run_id, p_metric
    )
    on conflict do nothing
    returning alert_id into made;
    if made is not null then
        insert into raw.alert_event (alert_id, what, to_state, by_whom, why, run_id)
        values (made, 'opened', 'open', 'nightbench', p_sentence, p_run_id);
        return true;
    end if;
    select * into found from raw.alert
    where case_id = p_case_id and cluster = p_cluster and metric = p_metric
        and state in ('open', 'acknowledged') for update;
    if found.snoozed_until <= now() then
        update raw.alert set snoozed_until = null, grown_from = null, news_run_id = p_run_id
        where alert_id = found.alert_id;
        perform triage.add_event(
            found.alert_id, 'woke', 'nightbench', 'its snooze is over', p_run_id
        );
    end if;
    if found.last_run_id <> p_run_id then
        update raw.alert
        set
            kind = p_kind,
            sentence = p_sentence,
            value = p_value,
            baseline = p_baseline,
            change = p_change,
            last_run_id = p_run_id,
            suspect = null,
            suspect_run_id = null,
            suspect_at = null
        where alert_id = found.alert_id;
        perform triage.add_event(
            found.alert_id, 'continued', 'nightbench', p_sentence, p_run_id
        );
    end if;
    return false;
end
$$;
comment on function triage.open_alert is
'Opens an alert and returns true. Returns false if the series has a live alert, or if this run '
'opened one before. A live alert of another run gets kind, sentence and values of this run, and '
'its snooze ends if its time is over';

create function triage.resolve_by_run(p_alert_id bigint, p_run_id text, p_why text)
returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp as $$
declare
    found raw.alert;
begin
    select * into found from raw.alert where alert_id = p_alert_id for update;
    if found.state in ('open', 'acknowledged') then
        perform triage.apply_move(p_alert_id, 'resolved', 'nightbench', p_why, null, p_run_id);
        return true;
    end if;
    if found.state = 'dismissed' and found.resolved_run_id is null then
        update raw.alert set resolved_run_id = p_run_id, suspect = null, suspect_run_id = null,
            suspect_at = null
        where alert_id = p_alert_id;
        perform triage.add_event(p_alert_id, 'over', 'nightbench', p_why, p_run_id);
        return true;
    end if;
    return false;
end
$$;
comment on function triage.resolve_by_run is
'A night resolves an alert, or ends the event of a dismissed alert; false if there was '
'nothing to end';

create function triage.reopen_by_run(
    p_alert_id bigint,
    p_kind text,
    p_sentence text,
    p_value double precision,
    p_baseline double precision,
    p_change double precision,
    p_run_id text
) returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp as $$
begin
    perform from raw.alert where alert_id = p_alert_id and state = 'dismissed' for update;
    if not found then
        return false;
    end if;
    perform triage.apply_move(p_alert_id, 'open', 'nightbench', p_sentence, null, p_run_id);
    update raw.alert
    set
        kind = p_kind,
        sentence = p_sentence,
        value = p_value,
        baseline = p_baseline,
        change = p_change,
        last_run_id = p_run_id,
        news_run_id = p_run_id,
        grown_from = null
    where alert_id = p_alert_id;
    return true;
end
$$;
comment on function triage.reopen_by_run is
'Reopens a dismissed alert that has become worse; false if it was no longer dismissed';

create function triage.watch_alert(p_alert_id bigint, p_suspect text, p_run_id text)
returns void
language sql
security definer
set search_path = pg_catalog, pg_temp as $$
    update raw.alert
    set
        suspect = p_suspect,
        suspect_run_id = case when p_suspect is not null then p_run_id end,
        suspect_at = case
            when p_suspect is not null
                then (select started_at from raw.run where run_id = p_run_id)
        end
    where alert_id = p_alert_id
$$;
comment on function triage.watch_alert is
'Stores the result of one night (recovered, worse) that a second night must confirm; null '
'removes it';

-- The owner of a new alert, as in the suite's file. People decide: an alert that a person assigned,
-- or whose owner a person removed, is not assigned again.
create function triage.route_alert(p_alert_id bigint, p_owner text, p_run_id text)
returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp as $$
begin
    update raw.alert set owner = trim(p_owner)
    where alert_id = p_alert_id and owner is null and trim(p_owner) <> '' and not exists (
        select 1 from raw.alert_event where alert_id = p_alert_id and what = 'assigned'
    );
    if not found then
        return false;
    end if;
    perform triage.add_event(
        p_alert_id, 'assigned', 'nightbench', 'to ' || trim(p_owner), p_run_id
    );
    return true;
end
$$;
comment on function triage.route_alert is
'Gives a new alert its owner; false if an owner was assigned before';

create function triage.grow_alert(p_alert_id bigint, p_run_id text) returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp as $$
declare
    found raw.alert;
    notified double precision;
begin
    select * into found from raw.alert where alert_id = p_alert_id for update;
    if found.alert_id is null or found.state not in ('open', 'acknowledged')
        or found.news_run_id = p_run_id
        or not exists (
            select from raw.delivery
            where kind = 'alert' and subject = p_alert_id::text and news = found.news_run_id
                and channel = ''
        ) then
        return false;
    end if;
    select v.change into notified
    from raw.run as r
    inner join raw.series as s on s.case_id = found.case_id and s.cluster = found.cluster
    inner join raw.verdict as v
        on v.run_key = r.run_key and v.series_key = s.series_key and v.run_at = r.started_at
    where r.run_id = found.news_run_id;
    update raw.alert set news_run_id = p_run_id, grown_from = notified
    where alert_id = p_alert_id;
    perform triage.add_event(
        p_alert_id, 'grew', 'nightbench',
        'from ' || to_char(100 * notified, 'FM990.0') || ' % to '
            || to_char(100 * found.change, 'FM990.0') || ' %', p_run_id
    );
    return true;
end
$$;
comment on function triage.grow_alert is
'Notifies a live alert again, because its change has grown; false if its message is not sent yet';

-- Rights -----------------------------------------------------------------------------------

revoke insert, update on raw.alert, raw.alert_event from nightbench_loader;
revoke execute on all functions in schema triage from public;
grant usage on schema triage to nightbench_loader, nightbench_triage;
grant execute on function
triage.open_alert, triage.resolve_by_run, triage.reopen_by_run,
triage.watch_alert,
triage.grow_alert,
triage.route_alert,
triage.move_alert,
triage.snooze_alert,
triage.assign_alert
to nightbench_loader;
grant execute on function
triage.move_alert, triage.snooze_alert, triage.assign_alert
to nightbench_triage;
grant usage on schema marts to nightbench_triage;
grant select on all tables in schema marts to nightbench_triage;
alter default privileges in schema marts grant select on tables to nightbench_triage;
