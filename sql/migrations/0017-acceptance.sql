-- A run may try every mode of the lines on a cluster: `nightbench accept`.
alter table raw.run drop constraint run_run_kind_check;
alter table raw.run add constraint run_run_kind_check
check (run_kind in ('nightly', 'on_demand', 'confirm', 'backfill', 'drill', 'acceptance'));
create index run_of_acceptance on raw.run (cluster, started_at desc)
where run_kind = 'acceptance';
