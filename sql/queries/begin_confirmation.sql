-- Somebody measures it now; no row where it is over.
update raw.confirmation
set state = 'running'
where
    confirmation_id = %(confirmation_id)s
    and state in ('wanted', 'running');
