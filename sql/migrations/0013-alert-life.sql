-- The life of an alert: who did what, when and why. One place says which moves are allowed: the
-- functions of schema triage. Nobody but they writes states.
create schema triage;
comment on schema triage is 'What moves an alert: the only way to change one';

alter table raw.alert add column dismissed_as text
check (dismissed_as in ('false_alarm', 'intended', 'wont_fix'));
alter table raw.alert add column snoozed_until timestamptz;
alter table raw.alert add column owner text check (owner <> '');
alter table raw.alert add column news_run_id text references raw.run (run_id);
alter table raw.alert add column suspect text check (suspect in ('recovered', 'worse'));
alter table raw.alert add column suspect_run_id text references raw.run (run_id);
alter table raw.alert add column suspect_at timestamptz;
update raw.alert set news_run_id = opened_run_id;
alter table raw.alert alter column news_run_id set not null;
update raw.alert set dismissed_as = 'wont_fix'
where state = 'dismissed';
alter table raw.alert add constraint dismissed_has_reason
check ((dismissed_as is null) = (state <> 'dismissed'));
comment on column raw.alert.snoozed_until is 'No message before; then it is told again if it lives';
comment on column raw.alert.news_run_id is
'Run that has to tell of it: it opened, reopened or woke it';
comment on column raw.alert.suspect is
'What one night said and a second has to confirm: recovered, or worse than what was dismissed';
comment on column raw.alert.resolved_run_id is
'Run that confirmed the recovery; on a dismissed alert: its event is over';

create table raw.alert_event (
    event_id bigint generated always as identity primary key,
    alert_id bigint not null references raw.alert (alert_id),
    at timestamptz not null default clock_timestamp(),
    what text not null
    check (what in ('opened', 'continued', 'moved', 'over', 'snoozed', 'woke', 'assigned')),
    from_state text,
    to_state text not null,
    by_whom text not null check (by_whom <> ''),
    why text not null default '',
    run_id text references raw.run (run_id),
    db_role text not null default session_user
);
create index alert_event_by_alert on raw.alert_event (alert_id, event_id);
comment on table raw.alert_event is
'All that happened to alerts, by people and by nightbench: only ever added to';
comment on column raw.alert_event.by_whom is 'nightbench, or the person as the caller names them';
comment on column raw.alert_event.db_role is 'Role that was logged in: whoever calls cannot choose';

insert into raw.alert_event (alert_id, at, what, to_state, by_whom, why, run_id)
select
    alert_id,
    opened_at,
    'opened' as what,
    'open' as to_state,
    'nightbench' as by_whom,
    sentence,
    opened_run_id
from raw.alert;

create function triage.refuse_rewriting() returns trigger
language plpgsql as $$
begin
    raise exception using message = 'the history of alerts is only ever added to';
end
$$;
create trigger append_only before update or delete or truncate on raw.alert_event
for each statement execute function triage.refuse_rewriting();

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
        where case_id = found.case_id and cluster = found.cluster
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

-- What people do ---------------------------------------------------------------------------

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
    return triage.apply_move(p_alert_id, p_to, p_by, p_why, p_reason, null);
end
$$;
comment on function triage.move_alert is
'A person makes an alert acknowledged, resolved, dismissed (with reason) or open; gives the state '
'before';

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
    if p_until is null or p_until <= now() or p_until = 'infinity' then
        raise exception using message = 'an alert is snoozed until a time to come, found '
            || coalesce(p_until::text, 'nothing');
    end if;
    update raw.alert set snoozed_until = p_until where alert_id = p_alert_id;
    insert into raw.alert_event (alert_id, what, from_state, to_state, by_whom, why)
    values (
        p_alert_id, 'snoozed', was, was, p_by,
        concat_ws(': ', 'until ' || to_char(p_until at time zone 'utc', 'YYYY-MM-DD HH24:MI')
            || ' UTC', nullif(p_why, ''))
    );
    return was;
end
$$;
comment on function triage.snooze_alert is 'No message of a live alert before a time';

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
    insert into raw.alert_event (alert_id, what, from_state, to_state, by_whom, why)
    values (
        p_alert_id, 'assigned', was, was, p_by,
        concat_ws(': ', 'to ' || coalesce(nullif(trim(p_owner), ''), 'nobody'), nullif(p_why, ''))
    );
    return was;
end
$$;
comment on function triage.assign_alert is 'Says whose a live alert is; empty: nobody''s';

-- What a night does ------------------------------------------------------------------------

create function triage.open_alert(
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
begin
    insert into raw.alert (
        case_id, cluster, kind, sentence, value, baseline, change,
        opened_run_id, last_run_id, news_run_id
    )
    values (
        p_case_id, p_cluster, p_kind, p_sentence, p_value, p_baseline, p_change,
        p_run_id, p_run_id, p_run_id
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
comment on function triage.open_alert is
'Opens an alert unless the series has a live one, or this run opened one before: then null';

create function triage.continue_alert(
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
declare
    found raw.alert;
begin
    select * into found from raw.alert where alert_id = p_alert_id for update;
    if found.alert_id is null or found.state not in ('open', 'acknowledged') then
        return false;
    end if;
    if found.snoozed_until <= now() then
        update raw.alert set snoozed_until = null, told_at = null, news_run_id = p_run_id
        where alert_id = p_alert_id;
        insert into raw.alert_event (
            alert_id, what, from_state, to_state, by_whom, why, run_id
        )
        values (
            p_alert_id, 'woke', found.state, found.state, 'nightbench', 'its snooze is over',
            p_run_id
        );
    end if;
    if found.last_run_id = p_run_id then
        return false;
    end if;
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
    where alert_id = p_alert_id;
    insert into raw.alert_event (alert_id, what, from_state, to_state, by_whom, why, run_id)
    values (p_alert_id, 'continued', found.state, found.state, 'nightbench', p_sentence, p_run_id);
    return true;
end
$$;
comment on function triage.continue_alert is
'Another night says the same: kind, sentence and figures follow it; a snooze that is over ends';

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
        insert into raw.alert_event (
            alert_id, what, from_state, to_state, by_whom, why, run_id
        )
        values (p_alert_id, 'over', 'dismissed', 'dismissed', 'nightbench', p_why, p_run_id);
        return true;
    end if;
    return false;
end
$$;
comment on function triage.resolve_by_run is
'A night ends an alert, or the event of a dismissed one; false where there was nothing to end';

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
    if not exists (
        select 1 from raw.alert
        where alert_id = p_alert_id and state = 'dismissed' for update
    ) then
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
        told_at = null
    where alert_id = p_alert_id;
    return true;
end
$$;
comment on function triage.reopen_by_run is
'What was dismissed has become worse; false where it was not dismissed any more';

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
'One night''s suspicion (recovered, worse) that a second one has to confirm; null: it was nothing';

-- Rights -----------------------------------------------------------------------------------

revoke insert, update on raw.alert, raw.alert_event from nightbench_loader;
grant update (told_at) on raw.alert to nightbench_loader;
revoke execute on all functions in schema triage from public;
grant usage on schema triage to nightbench_loader, nightbench_triage;
grant execute on function
triage.open_alert, triage.continue_alert, triage.resolve_by_run, triage.reopen_by_run,
triage.watch_alert, triage.move_alert, triage.snooze_alert, triage.assign_alert
to nightbench_loader;
grant execute on function
triage.move_alert, triage.snooze_alert, triage.assign_alert
to nightbench_triage;
grant usage on schema marts to nightbench_triage;
grant select on all tables in schema marts to nightbench_triage;
alter default privileges in schema marts grant select on tables to nightbench_triage;
