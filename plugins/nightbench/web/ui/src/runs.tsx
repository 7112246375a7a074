// All runs, newest first.
import { Button, Flex, Heading, Text } from "@chakra-ui/react";

import { useApi } from "./api";
import type { RunPage, RunRow } from "./api-types";
import { moment, words } from "./format";
import { Answered, Link, Note, useChoices, useTitle } from "./parts";
import { routes } from "./routes";
import { type Column, DataTable } from "./table";

const COLUMNS: Column<RunRow>[] = [
  { name: "Run", cell: (run) => <Link to={routes.run(run.run_id)}>{run.run_id}</Link> },
  { name: "Suite", cell: (run) => run.suite },
  { name: "Cluster", cell: (run) => run.cluster },
  { name: "Kind", cell: (run) => words(run.is_imported ? "imported" : run.run_kind) },
  { name: "Started (UTC)", cell: (run) => moment(run.started_at) },
  {
    name: "Measured",
    isNumber: true,
    cell: (run) => (
      <Text as="span">
        {run.measured} of {run.planned}
        {(["quarantined", "failed", "left_out"] as const)
          .filter((key) => run[key])
          .map((key) => `, ${run[key]} ${words(key)}`)
          .join("")}
        {run.loaded_at === null && ", not loaded yet"}
      </Text>
    ),
  },
];

export function RunsPage() {
  useTitle("Runs");
  return <Runs />;
}

/** All runs, or the runs of a suite. */
export function Runs({ suite }: { suite?: string }) {
  const [query, choose] = useChoices();
  const answer = useApi<RunPage>("runs", { ...Object.fromEntries(query), ...(suite && { suite }) });
  const isImported = query.get("imported") === "true";
  return (
    <>
      <Heading as="h1" size="lg">
        {suite ? `Runs of ${suite}` : "Runs"}
      </Heading>
      <Answered answer={answer}>
        {(found) => (
          <>
            <Flex gap={2} my={2} wrap="wrap">
              <Button
                size="xs"
                variant="outline"
                disabled={found.page <= 1}
                onClick={() => choose("page", String(found.page - 1))}
              >
                Newer
              </Button>
              <Button
                size="xs"
                variant="outline"
                disabled={!found.has_more}
                onClick={() => choose("page", String(found.page + 1))}
              >
                Older
              </Button>
              <Button
                size="xs"
                variant={isImported ? "solid" : "outline"}
                aria-pressed={isImported}
                onClick={() => choose("imported", isImported ? "" : "true")}
              >
                Show imported runs
              </Button>
            </Flex>
            <DataTable
              label="Runs"
              columns={COLUMNS}
              rows={found.items}
              rowKey={(run) => run.run_id}
              none={<Note>No run matches these filters.</Note>}
            />
          </>
        )}
      </Answered>
    </>
  );
}
