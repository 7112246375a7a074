-- The end of the traceback of a repeat that failed.

alter table raw.repeat add column error text check (error <> '');
comment on column raw.repeat.error is
'End of the traceback of the process that failed, or of its output; null where none did';
