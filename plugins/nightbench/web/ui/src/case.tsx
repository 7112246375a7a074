// One case of a run: its result, what changed before it, its repeats, and how to measure it again.
import { Box, Button, Heading, Text } from "@chakra-ui/react";
import { useParams } from "react-router-dom";

import { useApi } from "./api";
import type { CaseDetail, FailedCheck, RepeatResult, RunDifference } from "./api-types";
import { count, figure, judged, moment, percent, version, words } from "./format";
import {
  Answered,
  Change,
  CommandLine,
  Fact,
  Facts,
  Link,
  Marks,
  Note,
  Output,
  Section,
  Sentences,
  State,
  useChoices,
  useTitle,
} from "./parts";
import { RepeatDetail } from "./repeat";
import { Rerun } from "./rerun";
import { routes } from "./routes";
import { type Column, DataTable } from "./table";
import { peakBytes, UseFacts } from "./use";

const GOOD = ["ok", "improved", "measured", "watched", "insufficient_data", "private_build"];

function Figures({ detail }: { detail: CaseDetail }) {
  const { case: found } = detail;
  const between =
    found.minimum !== null && found.maximum !== null
      ? ` (${figure(found.minimum)} to ${figure(found.maximum)})`
      : "";
  return (
    <Facts>
      {found.throughput !== null && (
        <Fact name="Median">{`${figure(found.throughput)} ${found.unit}/s${between}`}</Fact>
      )}
      {found.throughput !== null && (
        <Fact name="Repeats, spread">{`n = ${found.n}, ${percent(found.spread)}`}</Fact>
      )}
      {found.baseline !== null && <Fact name="Baseline">{judged(found.baseline, found.metric, found.unit)}</Fact>}
      {found.change !== null && (
        <Fact name="Change">
          <Change of={found} />
        </Fact>
      )}
      {found.smallest_slowdown !== null && (
        <Fact name="Minimum detectable slowdown">{percent(found.smallest_slowdown)}</Fact>
      )}
      {found.speedup !== null && (
        <Fact name="Speed-up, efficiency">{`${found.speedup.toFixed(2)}, ${percent(found.efficiency, 0)}`}</Fact>
      )}
      {found.throughput !== null && <UseFacts of={found} unit={found.unit} />}
      <Fact name="Framework">{`${found.framework} ${version(found)}`}</Fact>
      <Fact name="Nodes">{detail.nodes.join(", ") || "–"}</Fact>
      <Fact name="Build">{found.build_id ?? "–"}</Fact>
    </Facts>
  );
}

const CHANGE_COLUMNS: Column<RunDifference>[] = [
  { name: "Field", cell: (row) => row.field },
  { name: "Last good run", cell: (row) => <bdi>{row.before}</bdi> },
  { name: "This run", cell: (row) => <bdi>{row.since}</bdi> },
  { name: "Node", cell: (row) => row.nodes.join(", ") || "whole run" },
];

function Changes({ detail }: { detail: CaseDetail }) {
  const { good, changes } = detail;
  return (
    <Section title="Changes since the last good run">
      {good && (
        <Text>
          <Link to={routes.case(good.run_id, detail.case.case_id)}>{good.run_id}</Link> of{" "}
          {moment(good.started_at)} UTC
          {good.throughput !== null && `, ${figure(good.throughput)} ${detail.case.unit ?? "units"}/s`}
          {good.framework_version && `, ${good.framework_version}`}
        </Text>
      )}
      {detail.changes_sentence && <Text color="fg.muted">{detail.changes_sentence}</Text>}
      <DataTable
        label="Changes since the last good run"
        columns={CHANGE_COLUMNS}
        rows={changes}
        rowKey={(row) => `${row.field} ${row.before} ${row.since}`}
        none={
          good && (
            <Text>No recorded change: framework version, build, benchmark code and nodes are the same.</Text>
          )
        }
      />
    </Section>
  );
}

const nameOf = (each: RepeatResult) => (each.generation ? `${each.generation}.${each.repeat}` : `${each.repeat}`);

const WAITED: Column<RepeatResult> = {
  name: "Wait for data, ms",
  isNumber: true,
  cell: (each) => figure(each.data_wait_s === null ? null : 1000 * each.data_wait_s),
};

const POWER: Column<RepeatResult> = {
  name: "Power, W",
  isNumber: true,
  cell: (each) => figure(each.power_w),
};

/** Columns of the repeats; synthetic data have no column for the wait. */
function repeatColumns(
  repeats: RepeatResult[],
  unit: string | null,
  open: string,
  onOpen: (name: string) => void,
): Column<RepeatResult>[] {
  return [
    {
      name: "Repeat",
      cell: (each) => (
        <Button
          size="2xs"
          variant={open === nameOf(each) ? "solid" : "outline"}
          aria-pressed={open === nameOf(each)}
          aria-label={`Repeat ${nameOf(each)}`}
          onClick={() => onOpen(nameOf(each))}
        >
          {nameOf(each)}
        </Button>
      ),
    },
    { name: "Started (UTC)", cell: (each) => (each.started_at ? moment(each.started_at) : "–") },
    { name: `Throughput, ${unit ?? "units"}/s`, isNumber: true, cell: (each) => figure(each.throughput) },
    { name: "Steps", isNumber: true, cell: (each) => each.steps ?? "–" },
    {
      name: "Median step, ms",
      isNumber: true,
      cell: (each) => figure(each.median_step_s === null ? null : 1000 * each.median_step_s),
    },
    ...(repeats.some((each) => each.data_wait_s !== null) ? [WAITED] : []),
    ...(repeats.some((each) => each.power_w !== null) ? [POWER] : []),
    { name: "Drift", isNumber: true, cell: (each) => percent(each.drift) },
    { name: "Time to first step, s", isNumber: true, cell: (each) => figure(each.time_to_first_step_s) },
    {
      name: "Memory, MB",
      isNumber: true,
      cell: (each) => {
        const peak = peakBytes(each);
        return figure(peak === null ? null : peak / 1e6);
      },
    },
    {
      name: "Loss",
      isNumber: true,
      cell: (each) => `${figure(each.loss_first)} → ${figure(each.loss_median)}`,
    },
    {
      name: "Result",
      cell: (each) => (
        <Box>
          <State name={each.status === "ok" && each.is_quarantined ? "quarantined" : each.status} />
          <Sentences of={each.sentences} />
        </Box>
      ),
    },
  ];
}

const CHECK_COLUMNS: Column<FailedCheck>[] = [
  { name: "Check", cell: (check) => words(check.check_name) },
  {
    name: "Checked value",
    cell: (check) =>
      check.repeat === 0
        ? "median"
        : `repeat ${check.generation ? `${check.generation}.` : ""}${check.repeat}`,
  },
  {
    name: "Effect",
    cell: (check) => (check.severity === "fail" ? <State name="quarantined" /> : "warning"),
  },
  { name: "Found", cell: (check) => <bdi>{check.observed}</bdi> },
  { name: "Expected", cell: (check) => <bdi>{check.expected}</bdi> },
];

function Checks({ detail }: { detail: CaseDetail }) {
  const { failed_checks: failed, checks_met: met } = detail;
  return (
    <Section title="Checks">
      <Text>
        {met || failed.length
          ? `${count(met, "check")} passed, ${failed.length} failed.`
          : "No check of this case is stored."}
      </Text>
      {failed.length > 0 && (
        <DataTable
          label="Failed checks"
          columns={CHECK_COLUMNS}
          rows={failed}
          rowKey={(check) =>
            `${check.generation} ${check.repeat} ${check.check_name} ${check.observed} ${check.expected}`
          }
        />
      )}
    </Section>
  );
}

function Fingerprint({ node, fields }: { node: string; fields: Record<string, string> }) {
  const rows = Object.entries(fields).sort(([one], [other]) => (one < other ? -1 : 1));
  return (
    <Box as="details" mb={2}>
      <summary>
        {node}: {count(rows.length, "field")}
      </summary>
      <Box maxH="30em" overflowY="auto">
        <DataTable
          label={`Fingerprint of ${node}`}
          columns={[
            { name: "Field", cell: ([field]: [string, string]) => field },
            { name: "Value", cell: ([, value]: [string, string]) => <bdi>{value}</bdi> },
          ]}
          rows={rows}
          rowKey={([field]) => field}
        />
      </Box>
    </Box>
  );
}

function Result({ detail }: { detail: CaseDetail }) {
  const { case: found } = detail;
  const status = GOOD.includes(found.state) ? "info" : "error";
  return (
    <Note status={["quarantined", "left_out", "cancelled"].includes(found.state) ? "warning" : status}>
      <State name={found.state} />{" "}
      <Marks of={found} />
      <Sentences of={found.sentences} />
    </Note>
  );
}

function Shown({ detail }: { detail: CaseDetail }) {
  const [query, choose] = useChoices({ replace: true, preventScrollReset: true });
  const { run, case: found, repeats } = detail;
  const fingerprints = Object.entries(detail.fingerprints);
  const chosen = (name: string) => query.get(name) ?? "";
  // A launch that failed explains a case; otherwise the last launch is shown.
  const failed = repeats.findLast((each) => !["ok", "disturbed"].includes(each.status));
  const open = repeats.find((each) => nameOf(each) === chosen("repeat")) ?? failed ?? repeats.at(-1);
  const parts = [run.run_id, found.case_id].map(encodeURIComponent).join("/");
  return (
    <>
      <Heading as="h1" size="lg" wordBreak="break-word">
        {found.case_id}
      </Heading>
      <Text>
        In run <Link to={routes.run(run.run_id)}>{run.run_id}</Link>: suite {run.suite} on {run.cluster},
        started {moment(run.started_at)} UTC.{" "}
        <Link to={routes.series(found.case_id, found.cluster)}>Page of the series</Link>
        {run.dag_id && run.dag_run_id && (
          <>
            {" · "}
            <Link to={routes.dagRun(run.dag_id, run.dag_run_id)}>Run in Airflow</Link>
          </>
        )}
      </Text>
      <Result detail={detail} />
      {open?.error ? <Output label="Traceback">{open.error}</Output> : found.error && <Output label="Traceback">{found.error}</Output>}
      <Figures detail={detail} />
      <Changes detail={detail} />
      <Section title="Repeats">
        {repeats.length ? (
          <DataTable
            label={`Repeats of ${found.case_id}`}
            columns={repeatColumns(repeats, found.unit, open ? nameOf(open) : "", (name) => choose("repeat", name))}
            rows={repeats}
            rowKey={(each) => `${each.generation} ${each.repeat}`}
          />
        ) : (
          <Text color="fg.muted">No launch of this case is stored.</Text>
        )}
      </Section>
      {open && (
        <RepeatDetail
          key={nameOf(open)}
          name={nameOf(open)}
          path={`runs/${parts}/repeats/${open.generation}/${open.repeat}`}
          chosen={chosen}
          choose={choose}
        />
      )}
      <Checks detail={detail} />
      <Section title="Hardware and software of the nodes">
        {fingerprints.length ? (
          fingerprints.map(([node, fields]) => <Fingerprint key={node} node={node} fields={fields} />)
        ) : (
          <Text color="fg.muted">This case has no node fingerprint.</Text>
        )}
      </Section>
      <Section title="Measure again">
        {Object.entries(detail.commands).map(([purpose, command]) => (
          <CommandLine key={purpose} purpose={purpose} command={command} />
        ))}
        {detail.may_trigger ? (
          !run.is_imported && <Rerun run={run} caseId={found.case_id} />
        ) : (
          <Text color="fg.muted" fontSize="sm">
            Users with permission to trigger the DAG on_demand see a button here that measures the case again.
          </Text>
        )}
      </Section>
    </>
  );
}

/** One case of a run. */
export function Case({ runId, caseId }: { runId: string; caseId: string }) {
  const answer = useApi<CaseDetail>(`runs/${encodeURIComponent(runId)}/${encodeURIComponent(caseId)}`);
  return <Answered answer={answer}>{(detail) => <Shown detail={detail} />}</Answered>;
}

export function CasePage() {
  const { runId = "", caseId = "" } = useParams();
  useTitle(`${caseId} in ${runId}`);
  return <Case key={`${runId} ${caseId}`} runId={runId} caseId={caseId} />;
}
