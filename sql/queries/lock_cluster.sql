-- Counting the events of a cluster's nodes: one at a time, until the transaction ends.
select pg_advisory_xact_lock(hashtextextended('nightbench nodes of ' || %(cluster)s, 0));
