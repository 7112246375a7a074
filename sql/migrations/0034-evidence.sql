-- Evidence is data, no sentences.
comment on column raw.alert_cause.evidence is
'What speaks for the cause, against it, for a rival, and what else: each {text, is_against, rival}';
