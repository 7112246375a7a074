-- One load of a run at a time; the lock ends with the transaction.
select pg_advisory_xact_lock(hashtextextended('nightbench run ' || %(run_id)s, 0));
