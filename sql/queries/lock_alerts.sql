-- One at a time decides on the alerts of a cluster and tells of them, until it disconnects.
select pg_advisory_lock(hashtext('nightbench alerts'), hashtext(%(cluster)s));
