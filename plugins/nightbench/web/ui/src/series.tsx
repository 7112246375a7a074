// One series: its history, what changed on the way, its alerts, published figures beside it.
import { Button, Flex, Heading, List, Text } from "@chakra-ui/react";
import { useMemo } from "react";
import { useNavigate, useSearchParams } from "react-router-dom";

import { apiAddress, useApi } from "./api";
import type { AlertRow, Roofline, SeriesHistory, SeriesPoint } from "./api-types";
import { Chart, type Range, type Symbol } from "./chart";
import { byDay, counts, describe, events, mustShow, pointState, references, robustRange, seconds } from "./chart-marks";
import { day, figure, moment, percent, words } from "./format";
import {
  AlertLink,
  Answered,
  Change,
  Download,
  Fact,
  Facts,
  Help,
  Link,
  Note,
  Section,
  State,
  useTitle,
} from "./parts";
import { routes } from "./routes";
import { type Column, DataTable } from "./table";
import { Losses } from "./losses";
import { USE, UseFacts } from "./use";

const DAY = 86_400;
const SPANS = [
  ["30 days", 30],
  ["90 days", 90],
  ["1 year", 365],
] as const;
const SHOWN = 30;

function pointColumns(caseId: string, unit: string): Column<SeriesPoint>[] {
  return [
    {
      name: "Run",
      cell: (point) => (
        <Link to={routes.case(point.run_id, caseId)} label={`Run ${point.run_id}`}>
          <Text as="span" whiteSpace="nowrap">
            {moment(point.started_at)}
          </Text>
        </Link>
      ),
    },
    { name: "Result", cell: (point) => <State name={pointState(point)} /> },
    {
      name: `Median, ${unit}/s`,
      isNumber: true,
      cell: (point) => figure(point.throughput),
    },
    { name: "Spread", isNumber: true, cell: (point) => percent(point.spread) },
    { name: "n", isNumber: true, cell: (point) => point.n ?? "–" },
    { ...USE, cell: (point) => USE.cell({ ...point, unit }) },
    { name: "Version", cell: (point) => point.framework_version ?? "–" },
    { name: "Nodes", cell: (point) => point.node_names?.join(", ") || "–" },
    { name: "Reason", cell: (point) => <bdi>{point.sentence || "–"}</bdi> },
  ];
}

/** The resource that limits a step, with the known shares of the step. */
function boundBy(found: Roofline): string {
  const shares = [
    ["input", found.input_share, ""],
    ["compute", found.compute_share, ""],
    ["memory", found.memory_share, "at least "],
    ["network", found.network_share, ""],
  ] as const;
  const known = shares.flatMap(([name, share, least]) =>
    share === null ? [] : [`${name} ${least}${percent(share, 0)}`],
  );
  const rests = known.length ? ` (of a step: ${known.join(", ")})` : "";
  return `${found.bound ?? `unknown: ${found.absent}`}${rests}`;
}

const ALERT_COLUMNS: Column<AlertRow>[] = [
  {
    name: "Alert",
    cell: (alert) => <AlertLink alertId={alert.alert_id} />,
  },
  {
    name: "State",
    cell: (alert) => (
      <>
        <State name={alert.state} /> {alert.dismissed_as && words(alert.dismissed_as)}
      </>
    ),
  },
  {
    name: "Change",
    cell: (alert) => (
      <Change of={alert} />
    ),
  },
  { name: "Onset", cell: (alert) => day(alert.since ?? alert.opened_at) },
  { name: "Cause", cell: (alert) => (alert.cause ? words(alert.cause) : "unknown") },
  { name: "Owner", cell: (alert) => <bdi>{alert.owner || "none"}</bdi> },
];

const SYMBOLS: Record<string, Symbol> = {
  regressed: { shape: "down", ink: "red-fg" },
  improved: { shape: "up", ink: "green-fg" },
  quarantined: { shape: "cross", ink: "orange-fg" },
  failed: { shape: "cross", ink: "red-fg" },
  missing: { shape: "cross", ink: "red-fg" },
  unavailable: { shape: "cross", ink: "orange-fg" },
  watched: { shape: "dot", ink: "orange-fg" },
  private_build: { shape: "ring", ink: "fg-muted" },
};

function Readout({ point, caseId, unit }: { point: SeriesPoint; caseId: string; unit: string }) {
  return (
    <>
      <Text color="fg">
        <Link to={routes.case(point.run_id, caseId)}>{moment(point.started_at)} UTC</Link>{" "}
        <strong>
          {figure(point.throughput)} {unit}/s
        </strong>{" "}
        <State name={pointState(point)} /> {point.n !== null && `n = ${point.n}`}
        {point.spread !== null && `, spread ${percent(point.spread)}`}
        {point.framework_version && `, version ${point.framework_version}`}
        {point.node_names?.length ? `, on ${point.node_names.join(", ")}` : ""}
      </Text>
      <Text>{point.sentence}</Text>
    </>
  );
}

/** The range in an address; nothing if the address has no valid range. */
function rangeOf(query: URLSearchParams): Range | undefined {
  const from = Date.parse(query.get("from") ?? "");
  const to = Date.parse(query.get("to") ?? "");
  return from < to ? { from: from / 1000, to: to / 1000 } : undefined;
}

/** The plot with its ranges, the result that is chosen, and the legend. */
export function Plot({ series }: { series: SeriesHistory }) {
  const [query, setQuery] = useSearchParams();
  const navigate = useNavigate();
  const unit = series.unit ?? "units";
  const range = rangeOf(query);
  const setRange = (chosen?: Range) =>
    setQuery(
      (before) => {
        const next = new URLSearchParams(before);
        next.delete("from");
        next.delete("to");
        if (chosen) {
          next.set("from", new Date(chosen.from * 1000).toISOString().slice(0, 16) + "Z");
          next.set("to", new Date(chosen.to * 1000).toISOString().slice(0, 16) + "Z");
        }
        return next;
      },
      { replace: true },
    );
  const newest = series.points.at(-1);
  const last = newest ? seconds(newest.started_at) : 0;
  const published = useMemo(() => references(series), [series]);
  const { points } = series;
  const times = useMemo(() => points.map((point) => seconds(point.started_at)), [points]);
  const judged = points.findLast((point) => point.baseline !== null);
  const [baseline, least] = [judged?.baseline ?? null, judged?.smallest_slowdown ?? 0];
  const span = (from: number, to: number) => {
    const inside = points.filter((point, index) => counts(point) && times[index]! >= from && times[index]! <= to);
    return robustRange(inside.map((point) => point.throughput!), mustShow(series, from, to));
  };
  return (
    <>
      <Flex gap={2} wrap="wrap" mb={2} role="group" aria-label="Range">
        {SPANS.map(([label, days]) => (
          <Button
            key={days}
            size="xs"
            variant="outline"
            onClick={() => setRange({ from: last - days * DAY, to: last + DAY / 4 })}
          >
            {label}
          </Button>
        ))}
        <Button size="xs" variant={range ? "solid" : "outline"} onClick={() => setRange()}>
          All
        </Button>
      </Flex>
      <Chart
        label={`History of ${series.case_id} on ${series.cluster}: ${points.length} results. Enter opens the case of a result`}
        x={times}
        lines={[
          { name: "median", values: points.map((point) => (counts(point) ? point.throughput : null)), isSparse: true },
        ]}
        {...(baseline !== null && { stripe: { from: baseline * (1 - least), to: baseline * (1 + least) } })}
        levels={published.map(({ value }) => ({ at: value, ink: "purple-fg" }))}
        marks={events(series)}
        symbols={points.map((point) => SYMBOLS[pointState(point)] ?? { shape: "dot", ink: "blue-fg" })}
        zoom={{ ...(range && { range }), onRange: setRange, span }}
        unit="Drag over the plot to zoom. Double-click to see the whole range. Click a point to open its case."
        readout={(index) => <Readout point={points[index]!} caseId={series.case_id} unit={unit} />}
        height={340}
        onOpen={(index) => void navigate(routes.case(points[index]!.run_id, series.case_id))}
      />
      <Help page="pages.md#read-the-values">
        <Text>Triangle down: regressed. Triangle up: improved. Cross: the result failed its checks, or the case has no result. Ring: a build that replaced the suite's build.</Text>
        <Text>Triangle at an edge of the plot: a result outside of the plotted range.</Text>
        <Text>Grey band: baseline ± minimum detectable slowdown. Times are in UTC.</Text>
        {published.map((each) => (
          <Text key={each.label}>
            Purple line: published value from other hardware, {figure(each.value)} {unit}/s ({each.label}).
          </Text>
        ))}
      </Help>
    </>
  );
}

function History({ series }: { series: SeriesHistory }) {
  const [query] = useSearchParams();
  const unit = series.unit ?? "units";
  const range = rangeOf(query);
  const newest = series.points.at(-1);
  const latest = series.points.findLast(counts);
  const changes = useMemo(() => byDay(events(series)), [series]);
  const visible = series.points.filter((point) => {
    const at = seconds(point.started_at);
    return !range || (at >= range.from && at <= range.to);
  });
  const detectable = series.points.findLast((point) => point.smallest_slowdown !== null);
  return (
    <>
      {latest && (
        <Facts>
          <Fact name={`Newest median, ${moment(latest.started_at)} UTC`}>
            <Text fontSize="xl" fontWeight="semibold">
              {figure(latest.throughput)} {unit}/s
            </Text>
          </Fact>
          {newest?.verdict && (
            <Fact name="Newest verdict">
              <State name={newest.verdict} title={newest.sentence ?? undefined} />
            </Fact>
          )}
          {newest && newest.change !== null && (
            <Fact name="Change">
              <Change of={newest} />
            </Fact>
          )}
          {detectable && (
            <Fact name="Minimum detectable slowdown">{percent(detectable.smallest_slowdown)}</Fact>
          )}
        </Facts>
      )}
      {series.noisy && (
        <Note status="warning">
          Noisy since {day(series.noisy.since_at)}; while it is noisy, a drop opens no alert:{" "}
          {series.noisy.sentence}
        </Note>
      )}
      {series.drifting && (
        <Note status="warning">
          Drifting: {percent(series.drifting.change)} over {series.drifting.nights} nights since{" "}
          {day(series.drifting.since)}. No single night is a regression.
        </Note>
      )}
      <Plot series={series} />
      <Losses caseId={series.case_id} cluster={series.cluster} />
      {latest && (
        <Section title="Use of the devices (newest median)">
          <Facts>
            <UseFacts of={latest} unit={unit} />
            {series.roofline && <Fact name="Limited by">{boundBy(series.roofline)}</Fact>}
          </Facts>
        </Section>
      )}
      {changes.length > 0 && (
        <Section title="Recorded changes">
          <List.Root ps={5}>
            {changes.toReversed().map((each) => (
              <List.Item key={each.at}>{describe(each)}</List.Item>
            ))}
          </List.Root>
        </Section>
      )}
      {series.alerts.length > 0 && (
        <Section title="Alerts">
          <DataTable
            label="Alerts of this series"
            columns={ALERT_COLUMNS}
            rows={series.alerts.toReversed()}
            rowKey={(alert) => String(alert.alert_id)}
          />
        </Section>
      )}
      <Section title={`Newest ${Math.min(SHOWN, visible.length)} of ${visible.length} results`}>
        <DataTable
          label="Results of this series"
          columns={pointColumns(series.case_id, unit)}
          rows={visible.slice(-SHOWN).reverse()}
          rowKey={(point) => point.run_id}
        />
      </Section>
    </>
  );
}

export function SeriesPage() {
  const [query] = useSearchParams();
  const caseId = query.get("case") ?? "";
  const cluster = query.get("cluster") ?? "";
  const path = `series/${encodeURIComponent(cluster)}/${encodeURIComponent(caseId)}`;
  const answer = useApi<SeriesHistory>(caseId && cluster ? path : "");
  useTitle(caseId);
  if (!caseId || !cluster) {
    return <Note status="warning">The address must contain `case` and `cluster`.</Note>;
  }
  return (
    <>
      <Heading as="h1" size="lg" wordBreak="break-word">
        {caseId}
      </Heading>
      <Text color="fg.muted" mb={3}>
        on <Link to={routes.explore(String(new URLSearchParams({ cluster })))}>{cluster}</Link>
        {" · "}
        <Download address={apiAddress(path, { format: "csv" })} file={`${caseId}-${cluster}.csv`} />
      </Text>
      <Answered answer={answer}>{(series) => <History series={series} />}</Answered>
    </>
  );
}
