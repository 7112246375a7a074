// Has one case measured again, by Airflow's own trigger of the DAG on_demand.
import { Box, Button, Code, Field, Flex, Input, Text } from "@chakra-ui/react";
import { type FormEvent, useState } from "react";

import { address, request } from "./api";
import type { RunRow } from "./api-types";
import { Link, Note } from "./parts";
import { routes } from "./routes";

const DAG = "on_demand";

type Conf = Record<string, unknown>;

/** Whether a form requested the run: the form may have another scale and other builds. */
const isAsked = (run: RunRow) => run.dag_id === DAG;

/** The scale and builds in the run's form; nothing for a run without a form. */
async function asked(run: RunRow): Promise<Conf> {
  if (!isAsked(run)) return {};
  const path = `api/v2/dags/${DAG}/dagRuns/${encodeURIComponent(run.dag_run_id ?? "")}`;
  const { conf } = await request<{ conf: Conf | null }>(address(path)).catch((error: Error) => {
    // Without them the suite's own would be measured, and taken for these.
    throw new Error(
      `Nothing was triggered, because Airflow does not return the scale and builds with which the DAG run ${run.dag_run_id} ` +
        `was requested (${error.message}). Trigger ${DAG} by its form and select scale and builds.`,
    );
  });
  const kept = Object.entries(conf ?? {}).filter(([name]) => ["scale", "builds"].includes(name));
  return Object.fromEntries(kept);
}

async function trigger(run: RunRow, caseId: string, repeats: number | undefined): Promise<string> {
  const conf = {
    ...(await asked(run)),
    suite: run.suite,
    cluster: run.cluster,
    cases: [caseId],
    ...(repeats && { repeats }),
  };
  const { dag_run_id } = await request<{ dag_run_id: string }>(address(`api/v2/dags/${DAG}/dagRuns`), {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ logical_date: null, conf, note: `again: ${caseId} of ${run.run_id}`.slice(0, 1000) }),
  });
  return dag_run_id;
}

export function Rerun({ run, caseId }: { run: RunRow; caseId: string }) {
  const [isOpen, setOpen] = useState(false);
  const [isSent, setSent] = useState(false);
  const [dagRun, setDagRun] = useState("");
  const [error, setError] = useState<Error>();
  const send = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const repeats = Number(new FormData(event.currentTarget).get("repeats")) || undefined;
    setSent(true);
    setError(undefined);
    trigger(run, caseId, repeats)
      .then(setDagRun, setError)
      .finally(() => setSent(false));
  };
  if (dagRun) {
    return (
      <Note status="success">
        Triggered: <Link to={routes.dagRun(DAG, dagRun)}>{dagRun}</Link>
      </Note>
    );
  }
  if (!isOpen) {
    return (
      <Button size="sm" variant="outline" onClick={() => setOpen(true)}>
        Measure again…
      </Button>
    );
  }
  return (
    <Box as="form" aria-label="Measure again" onSubmit={send as never} borderWidth="1px" borderRadius="md" p={3}>
      <Text>
        This triggers <Code>{DAG}</Code> with suite {run.suite} on {run.cluster} and only this case, with{" "}
        {isAsked(run) ? "the scale and builds of the original request" : "the scale and builds of the suite"}.
        The result is not used for baselines.
      </Text>
      <Flex gap={3} mt={2} wrap="wrap" align="end">
        <Field.Root w="auto">
          <Field.Label>Repeats (empty: as in the suite)</Field.Label>
          <Input name="repeats" type="number" min={1} max={99} size="sm" w="8em" autoFocus />
        </Field.Root>
        <Button type="submit" size="sm" disabled={isSent}>
          Trigger
        </Button>
        <Button size="sm" variant="outline" onClick={() => setOpen(false)}>
          Cancel
        </Button>
      </Flex>
      {error && <Note status="error">{error.message}</Note>}
    </Box>
  );
}
