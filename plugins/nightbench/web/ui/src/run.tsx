// One run: what came of each of its cases.
import { Box, Flex, Heading, Text } from "@chakra-ui/react";
import { useParams } from "react-router-dom";

import { apiAddress, useApi } from "./api";
import type { RunCase, RunResults } from "./api-types";
import { count, moment, version, words } from "./format";
import {
  Answered,
  Choice,
  Download,
  Link,
  Marks,
  Note,
  Search,
  Section,
  Sentences,
  State,
  useTitle,
  useChoices,
} from "./parts";
import { routes } from "./routes";
import { type Column, DataTable, Pager } from "./table";
import { FIGURES, NotKnown } from "./use";

/** Cases of a page. */
const SIZE = 100;

function caseColumns(runId: string): Column<RunCase>[] {
  return [
    {
      name: "Case",
      cell: (row) => (
        <Box minW={{ md: "9em" }}>
          <Link to={routes.case(runId, row.case_id)}>{row.case_id}</Link>
          <Text fontSize="xs">
            <Link to={routes.series(row.case_id, row.cluster)} label={`Series of ${row.case_id}`}>
              series
            </Link>
          </Text>
        </Box>
      ),
    },
    {
      name: "Result",
      cell: (row) => (
        <Box>
          <State name={row.state} />{" "}
          <Marks of={row} />
        </Box>
      ),
    },
    ...FIGURES,
    { name: "Version", cell: version },
    {
      name: "Reason",
      cell: (row) => (
        <Box minW={{ md: "12em" }}>
          <Sentences of={row.sentences} />
          {row.error && (
            <Text color="fg.muted" fontSize="xs" lineClamp={3}>
              <bdi>{lastLine(row.error)}</bdi>
            </Text>
          )}
        </Box>
      ),
    },
  ];
}

/** A traceback ends with the exception itself. */
const lastLine = (error: string) => error.trimEnd().split("\n").at(-1) ?? "";

function Cases({ results }: { results: RunResults }) {
  const [query, choose] = useChoices();
  const [state, search] = [query.get("state") ?? "", query.get("search") ?? ""];
  const counts = new Map<string, number>();
  for (const each of results.cases) counts.set(each.state, (counts.get(each.state) ?? 0) + 1);
  const found = results.cases.filter(
    (each) =>
      (!state || each.state === state) && each.case_id.toLowerCase().includes(search.toLowerCase()),
  );
  const pages = Math.max(1, Math.ceil(found.length / SIZE));
  const page = Math.min(pages, Math.max(1, Number(query.get("page")) || 1));
  return (
    <Section title="Cases">
      {results.cases.length > 1 && (
        <Flex gap={3} wrap="wrap" align="end" mb={2}>
          <Choice
            name="result"
            value={state}
            values={[...counts].map(([value, number]) => ({ value, label: `${words(value)} (${number})` }))}
            onChoose={(value) => choose("state", value)}
          />
          <Search what="cases" value={search} onSearch={(text) => choose("search", text)} />
        </Flex>
      )}
      <DataTable
        label="Cases of this run"
        columns={caseColumns(results.run.run_id)}
        rows={found.slice((page - 1) * SIZE, page * SIZE)}
        rowKey={(row) => row.case_id}
        none={!found.length && <Note>No case of this run matches the filters.</Note>}
      />
      <Pager page={page} size={SIZE} total={found.length} onPage={(to) => choose("page", String(to))} />
    </Section>
  );
}

function Results({ results }: { results: RunResults }) {
  const { run } = results;
  const others = (["quarantined", "failed", "left_out"] as const)
    .filter((key) => run[key])
    .map((key) => `, ${run[key]} ${words(key)}`);
  return (
    <>
      <Heading as="h1" size="lg" wordBreak="break-word">
        Run {run.run_id}
      </Heading>
      <Text>
        Suite {run.suite} on {run.cluster}, {words(run.run_kind)}
        {run.requested_by && (
          <>
            , requested by <bdi>{run.requested_by}</bdi>
          </>
        )}
        , started {moment(run.started_at)} UTC. {run.measured} of {count(run.planned, "case")} measured
        {others.join("")}.{" "}
        {run.dag_id && run.dag_run_id && (
          <Link to={routes.dagRun(run.dag_id, run.dag_run_id)}>Run in Airflow</Link>
        )}
        {" · "}
        <Download
          address={apiAddress(`runs/${encodeURIComponent(run.run_id)}`, { format: "csv" })}
          file={`${run.run_id}.csv`}
        />
      </Text>
      {run.loaded_at === null && (
        <Note>
          This run is planned but not loaded yet. Missing results may still arrive.
        </Note>
      )}
      <Cases results={results} />
      <Text color="fg.muted" fontSize="xs" mt={2}>
        <NotKnown of={results.cases} />
        {run.code_digest && `Code ${run.code_digest.slice(0, 12)}. `}Quarantined: a check rejected the result, so it does not count.
      </Text>
    </>
  );
}

/** A run with its cases. */
export function Run({ runId }: { runId: string }) {
  const answer = useApi<RunResults>(`runs/${encodeURIComponent(runId)}`);
  return <Answered answer={answer}>{(results) => <Results results={results} />}</Answered>;
}

export function RunPage() {
  const { runId = "" } = useParams();
  useTitle(`Run ${runId}`);
  return <Run runId={runId} />;
}
