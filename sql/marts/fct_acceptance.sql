-- Grain: one row per acceptance of a cluster (a run of `nightbench accept`), mode of a line and
-- shape (nodes x devices).
create or replace view marts.fct_acceptance as
select *
from staging.acceptance;

comment on view marts.fct_acceptance is
'One row per acceptance of a cluster, mode of a line and shape: whether the mode works there';
