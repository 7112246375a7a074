-- A series is read across runs: by case first. The primary keys begin with the run.
create index measurement_by_case on raw.measurement (case_id, run_id);
create index repeat_rank_by_case on raw.repeat_rank (case_id, run_id);
