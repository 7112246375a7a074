-- Partitions by month: made before a run is planned or loaded, dropped when they are old and hold
-- nothing but details. A loader may call the functions here and has no other right to the tables.
create table raw.month (
    month date primary key check (extract(day from month) = 1)
);
comment on table raw.month is 'Months that results have partitions for';
comment on column raw.month.month is 'First day, UTC';
revoke insert, update on raw.month from nightbench_loader;

create function raw.ensure_month(p_at timestamptz) returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    first_day date := date_trunc('month', p_at at time zone 'utc');
    parent text;
    child text;
begin
    if exists (select from raw.month where month = first_day) then
        return false;
    end if;
    -- A second process that needs the month waits here until the first has made it.
    insert into raw.month values (first_day) on conflict do nothing;
    if not found then
        return false;
    end if;
    foreach parent in array array[
        'measurement', 'measurement_node', 'repeat', 'repeat_rank', 'failed_check', 'verdict'
    ] loop
        child := parent || to_char(first_day, '_YYYY_MM');
        -- Attached, not made in place: that would wait for everybody who reads.
        execute format('create table raw.%I (like raw.%I including all)', child, parent);
        execute format(
            'alter table raw.%I attach partition raw.%I for values from (%L) to (%L)',
            parent, child, first_day::text || ' 00:00:00+00',
            (first_day + interval '1 month')::date::text || ' 00:00:00+00'
        );
    end loop;
    return true;
end
$$;
comment on function raw.ensure_month is
'Creates the partitions of a month; false if they exist';

create function raw.drop_old_details(p_kept_days integer) returns table (dropped text)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    old record;
begin
    if p_kept_days is null or p_kept_days < 1 then
        raise exception using message = 'details are kept for a number of days from 1, found '
            || coalesce(p_kept_days::text, 'nothing');
    end if;
    for old in
        select c.oid::regclass::text as child
        from raw.month as m
        inner join pg_class as c
            on c.relname = 'repeat_rank' || to_char(m.month, '_YYYY_MM')
            and c.relnamespace = 'raw'::regnamespace
        where
            (m.month + interval '1 month')::date < current_date - p_kept_days
            and pg_relation_size(c.oid) > 0
        order by m.month
    loop
        -- Emptied, not dropped: a late load of that month still has its place.
        execute format('truncate %s', old.child);
        dropped := old.child;
        return next;
    end loop;
end
$$;
comment on function raw.drop_old_details is
'Removes the ranks and steps of all months whose last day is older than the given number of '
'days; everything else is kept. Returns the names of these months';

-- Autovacuum analyses months but never the tables that they are parts of, and a night comes at once.
create function raw.refresh_statistics() returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if not exists (
        select from pg_stat_all_tables as s
        where
            s.relid in ('raw.measurement'::regclass, 'raw.verdict'::regclass)
            and coalesce(s.last_analyze, '-infinity') < now() - interval '20 hours'
    ) then
        return false;
    end if;
    analyze raw.run, raw."case", raw.series, raw.planned_case, raw.measurement,
    raw.measurement_node, raw.repeat, raw.verdict;
    return true;
end
$$;
comment on function raw.refresh_statistics is
'Analyses results for the query planner, once a day; false if this was done recently';

revoke execute on function
raw.ensure_month, raw.drop_old_details, raw.refresh_statistics
from public;
grant execute on function
raw.ensure_month, raw.drop_old_details, raw.refresh_statistics
to nightbench_loader;
