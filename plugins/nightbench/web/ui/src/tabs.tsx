// The tab "Results" at a DAG, at a DAG run and at a task of one.
import { Box, Text } from "@chakra-ui/react";
import { type ReactNode, useEffect, useState } from "react";

import { address, request, useApi } from "./api";
import type { DagRunRun } from "./api-types";
import { onDemand } from "./on-demand";
import { Answered, Boundary, Note } from "./parts";

const Case = onDemand(() => import("./case").then((chunk) => chunk.Case));
const Run = onDemand(() => import("./run").then((chunk) => chunk.Run));
const Runs = onDemand(() => import("./runs").then((chunk) => chunk.Runs));

const NIGHTLY = "nightly_";

/** The properties that Airflow passes to a plugin's component. */
type Props = { dagId?: string; runId?: string; taskId?: string; mapIndex?: string };

function Tab({ children }: { children: ReactNode }) {
  return (
    <Boundary>
      <Box p={3} overflowY="auto" h="100%">
        {children}
      </Box>
    </Boundary>
  );
}

/** Shows the runs of a suite's DAG. Any other DAG may have made any run, so its tab shows all runs. */
function DagTab({ dagId = "" }: Props) {
  const suite = dagId.startsWith(NIGHTLY) ? dagId.slice(NIGHTLY.length) : undefined;
  return (
    <Tab>
      <Runs suite={suite} />
    </Tab>
  );
}

function RunOfDagRun({ dagId = "", runId = "", only = "" }: Props & { only?: string }) {
  const answer = useApi<DagRunRun>("runs/of-dag-run", { dag_id: dagId, dag_run_id: runId });
  return (
    <Answered answer={answer}>
      {({ run_id }) =>
        run_id === null ? (
          <Note>
            The DAG run {runId} has no run in the warehouse. The run appears when the task plan has ended, and its results when the task ingest has ended. DAGs that measure nothing have no run.
          </Note>
        ) : only ? (
          <Case runId={run_id} caseId={only} />
        ) : (
          <Run runId={run_id} />
        )
      }
    </Answered>
  );
}

function RunTab({ dagId, runId }: Props) {
  return (
    <Tab>
      <RunOfDagRun dagId={dagId} runId={runId} />
    </Tab>
  );
}

/** The case of a mapped task `measure`, by the name that Airflow shows; for other tasks, the run. */
function TaskTab({ dagId = "", runId = "", taskId = "", mapIndex }: Props) {
  const [caseId, setCaseId] = useState<string>();
  useEffect(() => {
    if (taskId !== "measure" || mapIndex === undefined) {
      setCaseId("");
      return;
    }
    const run = `dags/${encodeURIComponent(dagId)}/dagRuns/${encodeURIComponent(runId)}`;
    request<{ rendered_map_index: string | null }>(
      address(`api/v2/${run}/taskInstances/measure/${encodeURIComponent(mapIndex)}`),
    ).then(
      (found) => setCaseId(found.rendered_map_index ?? ""),
      () => setCaseId(""),
    );
  }, [dagId, runId, taskId, mapIndex]);
  return (
    <Tab>
      {caseId === undefined ? (
        <Text role="status">Reading</Text>
      ) : (
        <RunOfDagRun dagId={dagId} runId={runId} only={caseId} />
      )}
    </Tab>
  );
}

export function ResultsTab(props: Props) {
  if (props.taskId) return <TaskTab {...props} />;
  return props.runId ? <RunTab {...props} /> : <DagTab {...props} />;
}
