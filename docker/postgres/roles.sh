#!/bin/bash
# Roles and databases, as `nightbench up` makes them on one machine. Runs once, on an empty volume.
set -euo pipefail
psql --username postgres --set ON_ERROR_STOP=1 \
    --set airflow="$AIRFLOW_PASSWORD" --set owner="$OWNER_PASSWORD" \
    --set loader="$LOADER_PASSWORD" --set reader="$READER_PASSWORD" \
    --set triage="$TRIAGE_PASSWORD" <<'SQL'
create role airflow login password :'airflow';
create role nightbench_owner login password :'owner';
create role nightbench_loader login password :'loader';
create role nightbench_reader login password :'reader';
create role nightbench_triage login password :'triage';
create database airflow owner airflow;
create database warehouse owner nightbench_owner;
revoke all on database airflow from public;
revoke all on database warehouse from public;
grant connect on database warehouse to nightbench_owner, nightbench_loader, nightbench_reader,
    nightbench_triage;
SQL
psql --username postgres --set ON_ERROR_STOP=1 --file /nightbench/reader_limits.sql warehouse
