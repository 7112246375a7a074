-- A message told of a fall of the grade.
update raw.detector_grade
set told_at = now()
where run_id = %(run_id)s and measure = %(measure)s and told_at is null;
