-- Grain: one row per acceptance of a cluster (a run of `nightbench accept`), configuration of a
-- line and shape (nodes x devices).
create or replace view marts.fct_acceptance as
select *
from staging.acceptance;

comment on view marts.fct_acceptance is
'One row per acceptance test of a cluster, configuration of a line, number of nodes, and number '
'of devices of a node: whether the configuration works';
