-- A movement that the cases on several nodes share has a cause of its own: the network.
alter table raw.alert_cause drop constraint alert_cause_kind_check;
alter table raw.alert_cause add constraint alert_cause_kind_check check (
    kind in (
        'node', 'network', 'neighbour', 'thermal', 'driver', 'framework_version',
        'benchmark_code', 'unexplained'
    )
) not valid;
