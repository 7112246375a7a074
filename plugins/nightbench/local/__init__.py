"""The services that make a control plane on one machine: PostgreSQL, Airflow, local nodes."""
