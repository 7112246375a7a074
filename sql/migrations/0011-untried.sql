-- A mode that nobody had run on such devices is measured where that is asked for, and marked.
alter table raw.planned_case
add column untried text,
add constraint planned_case_untried_check check (untried <> '') not valid;
comment on column raw.planned_case.untried is
'Why nobody had run this mode of the line on such devices before; null where it was tried';
alter table raw.measurement
add column untried text,
add constraint measurement_untried_check check (untried <> '') not valid;
comment on column raw.measurement.untried is 'As planned';
