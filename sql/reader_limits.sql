-- Limits of the cost of nightbench_reader for the warehouse. Run by a superuser, connected to the
-- warehouse's database; running it again changes nothing. Settings are defaults that a session may
-- change; rights and the number of connections are not.
alter role nightbench_reader connection limit 40;
alter role nightbench_reader set statement_timeout = '60s';
alter role nightbench_reader set idle_in_transaction_session_timeout = '10min';

-- Without this every role may make large objects, which are invisible files in the database.
do $$
declare
    routine regprocedure;
begin
    for routine in
        select oid::regprocedure
        from pg_proc
        where
            pronamespace = 'pg_catalog'::regnamespace
            and (proname like 'lo\_%' or proname in ('loread', 'lowrite'))
    loop
        execute format('revoke execute on function %s from public', routine);
    end loop;
end
$$;
