// One run: what came of each of its cases; of one case all of its launches.
import { Box, Button, Code, Heading, Text } from "@chakra-ui/react";
import { useState } from "react";
import { useParams } from "react-router-dom";

import { apiAddress, useApi } from "./api";
import type { CaseRepeats, RunCase, RepeatResult, RunResults } from "./api-types";
import { change, count, figure, moment, percent, words } from "./format";
import { AlertLink, Answered, Change, Download, Link, Note, Section, State, useTitle } from "./parts";
import { routes } from "./routes";
import { type Column, DataTable } from "./table";

function because(sentences: string[]) {
  return (
    <Box>
      {sentences.map((sentence) => (
        <Text key={sentence}>
          <bdi>{sentence}</bdi>
        </Text>
      ))}
    </Box>
  );
}

function Traceback({ error, runId, caseId }: { error: string; runId: string; caseId: string }) {
  return (
    <details>
      <summary>error</summary>
      <Box as="pre" fontSize="xs" textAlign="start" overflowX="auto" whiteSpace="pre-wrap" maxW="60em">
        {error}
      </Box>
      <Text color="fg.muted">
        The whole log: <Code>{`nightbench logs --run ${runId} --case ${caseId}`}</Code>
      </Text>
    </details>
  );
}

const REPEAT_COLUMNS: Column<RepeatResult>[] = [
  {
    name: "Repeat",
    cell: (each) => (each.generation ? `${each.generation}.${each.repeat}` : each.repeat),
  },
  { name: "Started (UTC)", cell: (each) => (each.started_at ? moment(each.started_at) : "–") },
  { name: "Result", cell: (each) => <State name={each.is_quarantined ? "quarantined" : each.status} /> },
  { name: "Throughput", isNumber: true, cell: (each) => figure(each.throughput) },
  { name: "Steps", isNumber: true, cell: (each) => each.steps ?? "–" },
  {
    name: "Median step, ms",
    isNumber: true,
    cell: (each) => figure(each.median_step_s === null ? null : 1000 * each.median_step_s),
  },
  { name: "Drift", isNumber: true, cell: (each) => percent(each.drift) },
  { name: "First step after, s", isNumber: true, cell: (each) => figure(each.time_to_first_step_s) },
  {
    name: "Memory, MB",
    isNumber: true,
    cell: (each) => figure(each.peak_resident_bytes === null ? null : each.peak_resident_bytes / 1e6),
  },
  {
    name: "Loss",
    isNumber: true,
    cell: (each) => `${figure(each.loss_first)} → ${figure(each.loss_median)}`,
  },
  { name: "Because", cell: (each) => because(each.sentences) },
];

function Repeats({ runId, caseId }: { runId: string; caseId: string }) {
  const answer = useApi<CaseRepeats>(
    `runs/${encodeURIComponent(runId)}/${encodeURIComponent(caseId)}`,
  );
  return (
    <Answered answer={answer}>
      {(found) =>
        found.items.length ? (
          <DataTable
            label={`Repeats of ${caseId}`}
            columns={REPEAT_COLUMNS}
            rows={found.items}
            rowKey={(each) => `${each.generation} ${each.repeat}`}
          />
        ) : (
          <Text color="fg.muted">No launch of it has been stored.</Text>
        )
      }
    </Answered>
  );
}

function caseColumns(runId: string, open: string, onOpen: (caseId: string) => void): Column<RunCase>[] {
  return [
    {
      name: "Case",
      cell: (row) => (
        <Box>
          <Link to={routes.series(row.case_id, row.cluster)}>{row.case_id}</Link>
          <Box>
            <Button
              size="2xs"
              variant="outline"
              aria-expanded={open === row.case_id}
              onClick={() => onOpen(open === row.case_id ? "" : row.case_id)}
            >
              Repeats
            </Button>
          </Box>
        </Box>
      ),
    },
    {
      name: "Result",
      cell: (row) => (
        <Box>
          <State name={row.state} />{" "}
          {row.alert_id !== null && (
            <AlertLink alertId={row.alert_id}>
              alert {row.alert_id}
              {row.alert_change !== null && `: ${change(row.alert_change)}`}
            </AlertLink>
          )}{" "}
          {row.noisy && <State name="noisy" title={row.noisy} />}{" "}
          {row.drift !== null && <State name="drifting" title={change(row.drift)} />}
        </Box>
      ),
    },
    {
      name: "Median",
      isNumber: true,
      cell: (row) => (row.throughput === null ? "–" : `${figure(row.throughput)} ${row.unit}/s`),
    },
    { name: "Spread", isNumber: true, cell: (row) => percent(row.spread) },
    { name: "n", isNumber: true, cell: (row) => row.n },
    {
      name: "Speed-up",
      isNumber: true,
      cell: (row) => (row.speedup === null ? "–" : row.speedup.toFixed(2)),
    },
    { name: "Efficiency", isNumber: true, cell: (row) => percent(row.efficiency, 0) },
    {
      name: "Change",
      isNumber: true,
      cell: (row) => <Change value={row.change} low={row.change_low} high={row.change_high} />,
    },
    { name: "Version", cell: (row) => row.framework_version ?? "–" },
    {
      name: "Because",
      cell: (row) => (
        <Box>
          {because(row.sentences)}
          {row.error && <Traceback error={row.error} runId={runId} caseId={row.case_id} />}
        </Box>
      ),
    },
  ];
}

function Results({ results, only }: { results: RunResults; only: string }) {
  const { run } = results;
  const cases = results.cases.filter((each) => !only || each.case_id === only);
  const [open, setOpen] = useState(only);
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
            , asked for by <bdi>{run.requested_by}</bdi>
          </>
        )}
        , started {moment(run.started_at)} UTC. {run.measured} of {count(run.planned, "case")} measured
        {others.join("")}.{" "}
        {run.dag_id && run.dag_run_id && (
          <Link to={routes.dagRun(run.dag_id, run.dag_run_id)}>The run in Airflow</Link>
        )}
        {" · "}
        <Download
          address={apiAddress(`runs/${encodeURIComponent(run.run_id)}`, { format: "csv" })}
          file={`${run.run_id}.csv`}
        />
      </Text>
      {run.loaded_at === null && (
        <Note>
          This run has been planned and not been loaded yet: what is missing below may still be under
          way.
        </Note>
      )}
      <Section title="Cases">
        <DataTable
          label="Cases of this run"
          columns={caseColumns(run.run_id, open, setOpen)}
          rows={cases}
          rowKey={(row) => row.case_id}
        />
      </Section>
      {open && (
        <Section title={`Repeats of ${open}`}>
          <Repeats runId={run.run_id} caseId={open} />
        </Section>
      )}
      <Text color="fg.muted" fontSize="xs" mt={2}>
        {run.code_digest && `Code ${run.code_digest.slice(0, 12)}. `}A quarantined figure is shown with its
        reasons and never becomes a median.
      </Text>
    </>
  );
}

/** A run; with `only` no more of it than one case, whose repeats are open. */
export function Run({ runId, only = "" }: { runId: string; only?: string }) {
  const answer = useApi<RunResults>(`runs/${encodeURIComponent(runId)}`);
  return (
    <Answered answer={answer}>{(results) => <Results results={results} only={only} />}</Answered>
  );
}

export function RunPage() {
  const { runId = "" } = useParams();
  useTitle(`Run ${runId}`);
  return <Run runId={runId} />;
}
