// Addresses of the pages. They lie below Airflow's own route of a plugin and may be shared.

const HOME = "/plugin/benchmarks";

export const routes = {
  morning: () => HOME,
  explore: (query = "") => `${HOME}/explore${query && `?${query}`}`,
  series: (caseId: string, cluster: string) =>
    `${HOME}/series?${new URLSearchParams({ case: caseId, cluster })}`,
  runs: () => `${HOME}/runs`,
  run: (runId: string) => `${HOME}/runs/${encodeURIComponent(runId)}`,
  dagRun: (dagId: string, dagRunId: string) =>
    `/dags/${encodeURIComponent(dagId)}/runs/${encodeURIComponent(dagRunId)}`,
};

/** Pages that the server renders, outside of Airflow's own. */
export const rendered = {
  alerts: () => "nightbench/alerts",
  alert: (alertId: number) => `nightbench/alerts/${alertId}`,
  trust: () => "nightbench/trust",
};
