-- Grain: one row per run, case and reference build that was measured next to it.
create or replace view marts.fct_night_pair as
select
    p.run_id,
    r.suite,
    r.cluster,
    r.run_kind,
    r.started_at,
    p.case_id,
    p.reference,
    p.is_bridge,
    p.n,
    p.night_throughput,
    p.reference_throughput,
    p.ratio,
    p.low,
    p.high,
    p.spread,
    p.pairs,
    p.why,
    p.machine,
    p.machine_sentence
from raw.night_pair as p
inner join raw.run as r on p.run_id = r.run_id;

comment on view marts.fct_night_pair is
'One row per run, case and reference build with which the case was compared; no row is a result of '
'a night';
comment on column marts.fct_night_pair.n is
'Number of pairs of launches, one of the night''s build and one of the reference build; `why` '
'explains 0';
