// Experiments: two builds beside each other in rounds, and searches for the first bad version.
import { Badge, Box, Flex, Heading, Text } from "@chakra-ui/react";
import { useParams } from "react-router-dom";

import { useApi } from "./api";
import type {
  BisectDetail,
  BisectHead,
  BisectStep,
  ComparisonCase,
  ComparisonDetail,
  ComparisonHead,
  ComparisonRound,
  Experiments,
  SearchedVersion,
} from "./api-types";
import { change, count, figure, interval, moment, words } from "./format";
import { LineChart } from "./line-chart";
import { AlertLink, Answered, CommandLine, Link, Note, Section, State, useTitle } from "./parts";
import { routes } from "./routes";
import { type Column, DataTable } from "./table";

const minutes = (seconds: number) => count(Math.round(seconds / 60), "minute");

/** A ratio of throughputs as a change, with its interval below. */
function Ratio({ ratio, low, high }: { ratio: number | null; low: number | null; high: number | null }) {
  if (ratio === null) return <>–</>;
  return (
    <Box whiteSpace="nowrap">
      {change(ratio - 1)}
      <Text color="fg.muted" fontSize="xs">
        {low === null || high === null ? "no interval" : interval(low - 1, high - 1)}
      </Text>
    </Box>
  );
}

// --- the list ---------------------------------------------------------------------------------

const BISECT_COLUMNS: Column<BisectHead>[] = [
  {
    name: "Bisect",
    cell: (bisect) => <Link to={routes.bisect(bisect.bisect_id)}>{bisect.bisect_id}</Link>,
  },
  { name: "Begun (UTC)", cell: (bisect) => moment(bisect.started_at) },
  { name: "Versions", cell: (bisect) => `${bisect.line} ${bisect.good} to ${bisect.bad}` },
  {
    name: "Series",
    cell: (bisect) => (
      <>
        <Link to={routes.series(bisect.case_id, bisect.cluster)}>{bisect.case_id}</Link> on {bisect.cluster}
      </>
    ),
  },
  { name: "State", cell: (bisect) => <State name={bisect.outcome ?? bisect.state} /> },
  { name: "Tests", isNumber: true, cell: (bisect) => bisect.steps },
  { name: "Found", cell: (bisect) => <bdi>{bisect.sentence || "–"}</bdi> },
];

const COMPARISON_COLUMNS: Column<ComparisonHead>[] = [
  {
    name: "Comparison",
    cell: (row) => <Link to={routes.comparison(row.comparison_id)}>{row.comparison_id}</Link>,
  },
  { name: "Begun (UTC)", cell: (row) => moment(row.started_at) },
  { name: "A", cell: (row) => <bdi>{row.a}</bdi> },
  { name: "B", cell: (row) => <bdi>{row.b}</bdi> },
  { name: "Suite", cell: (row) => `${row.suite} on ${row.cluster}` },
  { name: "Cases", isNumber: true, cell: (row) => row.case_ids.length },
  { name: "B is", cell: (row) => <State name={row.verdict ?? row.state} /> },
  { name: "By", cell: (row) => <bdi>{row.requested_by || "–"}</bdi> },
];

export function ExperimentsPage() {
  useTitle("Experiments");
  const answer = useApi<Experiments>("experiments");
  return (
    <>
      <Heading as="h1" size="lg">
        Experiments
      </Heading>
      <Text color="fg.muted">
        Two builds are launched in turn on the same nodes, so that what both launches have in common
        cancels out. Nothing of it is part of a series.
      </Text>
      <Answered answer={answer}>
        {({ bisects, comparisons }) => (
          <>
            <Section title="Bisects: the first bad version">
              <DataTable
                label="Bisects"
                columns={BISECT_COLUMNS}
                rows={bisects}
                rowKey={(bisect) => bisect.bisect_id}
                none={<Text color="fg.muted">None yet: nightbench bisect ALERT, or the DAG nightbench_bisect.</Text>}
              />
            </Section>
            <Section title="A/B: two builds beside each other">
              <DataTable
                label="Comparisons"
                columns={COMPARISON_COLUMNS}
                rows={comparisons}
                rowKey={(row) => row.comparison_id}
                none={<Text color="fg.muted">None in the spool: nightbench ab BUILD BUILD --suite SUITE.</Text>}
              />
            </Section>
          </>
        )}
      </Answered>
    </>
  );
}

// --- two builds -------------------------------------------------------------------------------

function roundColumns(unit: string): Column<ComparisonRound>[] {
  return [
    { name: "Round", isNumber: true, cell: (round) => round.round },
    { name: "Order", cell: (round) => round.order },
    { name: `A, ${unit}/s`, isNumber: true, cell: (round) => figure(round.a) },
    { name: `B, ${unit}/s`, isNumber: true, cell: (round) => figure(round.b) },
    { name: "B against A", isNumber: true, cell: (round) => change(round.ratio - 1) },
    {
      name: "All rounds so far",
      isNumber: true,
      cell: (round) => (
        <Ratio ratio={round.running_ratio} low={round.running_low} high={round.running_high} />
      ),
    },
  ];
}

function Rounds({ found, planned }: { found: ComparisonCase; planned: number }) {
  const percents = (value: number | null) => (value === null ? null : 100 * (value - 1));
  const { rounds } = found;
  return (
    <Section title={found.case_id}>
      <Text>
        {found.verdict && <State name={found.verdict} />} {found.sentence}
      </Text>
      <Text color="fg.muted" fontSize="sm">
        {rounds.length} of {count(planned, "round")} on {found.nodes.join(", ")}; intervals of{" "}
        {(100 * found.level).toFixed(1)} % confidence.
        {found.stopped && ` It ended early: ${found.stopped}.`}
      </Text>
      {rounds.length > 1 && (
        <LineChart
          label={`B against A in ${rounds.length} rounds, percent`}
          x={rounds.map((round) => round.round)}
          lines={[
            { name: "round", values: rounds.map((round) => percents(round.ratio)) },
            { name: "low", values: rounds.map((round) => percents(round.running_low)), isMuted: true },
            { name: "high", values: rounds.map((round) => percents(round.running_high)), isMuted: true },
          ]}
          limit={0}
          unit="B against A in each round, percent; grey: the interval of all rounds so far; dashed: no difference"
          readout={(index) => {
            const round = rounds[index];
            return round
              ? `round ${round.round}: ${change(round.ratio - 1)}; all so far ${
                  round.running_ratio === null ? "–" : change(round.running_ratio - 1)
                } (${
                  round.running_low === null || round.running_high === null
                    ? "no interval before the third round"
                    : interval(round.running_low - 1, round.running_high - 1)
                })`
              : "";
          }}
          height={180}
        />
      )}
      {rounds.length > 0 && (
        <DataTable
          label={`Rounds of ${found.case_id}`}
          columns={roundColumns(found.unit ?? "units")}
          rows={rounds}
          rowKey={(round) => String(round.round)}
        />
      )}
      {found.dropped.map((launch, index) => (
        <Text key={`${launch.round} ${launch.arm} ${index}`} color="fg.muted" fontSize="sm">
          Round {launch.round} was measured again: {launch.arm} {launch.status}
          {launch.why && (
            <>
              {" "}
              (<bdi>{launch.why}</bdi>)
            </>
          )}
        </Text>
      ))}
    </Section>
  );
}

export function ComparisonPage() {
  const { comparisonId = "" } = useParams();
  useTitle(`Comparison ${comparisonId}`);
  const answer = useApi<ComparisonDetail>(`experiments/ab/${encodeURIComponent(comparisonId)}`);
  return (
    <Answered answer={answer}>
      {(found) => (
        <>
          <Heading as="h1" size="lg" wordBreak="break-word">
            Comparison {found.comparison_id}
          </Heading>
          <Text>
            <State name={found.verdict ?? found.state} /> A <bdi>{found.a}</bdi>, B <bdi>{found.b}</bdi>, of
            suite {found.suite} on {found.cluster}; begun {moment(found.started_at)} UTC
            {found.requested_by && (
              <>
                {" "}
                by <bdi>{found.requested_by}</bdi>
              </>
            )}
            , {words(found.state)}. It looks for differences of {(100 * found.min_effect).toPrecision(3)} % and more.
          </Text>
          {found.combined && <Note>All cases together: {found.combined}.</Note>}
          {found.not_combined && (
            <Text color="fg.muted">No figure for all cases together: {found.not_combined}.</Text>
          )}
          {found.cases.map((each) => (
            <Rounds key={each.case_id} found={each} planned={found.rounds} />
          ))}
          {found.command && (
            <Section title="Again">
              <CommandLine purpose="Compare the same again" command={found.command} />
              {["stopped", "interrupted"].includes(found.state) && (
                <CommandLine purpose="Go on with this one" command={`nightbench ab --resume ${found.comparison_id}`} />
              )}
            </Section>
          )}
        </>
      )}
    </Answered>
  );
}

// --- bisects ----------------------------------------------------------------------------------

const STANDING: Record<string, string> = {
  good: "green",
  bad: "red",
  first_bad: "red",
  suspect: "orange",
  unsure: "orange",
};

function Versions({ searched }: { searched: SearchedVersion[] }) {
  return (
    <Flex as="ol" aria-label="Versions, oldest first" wrap="wrap" gap={2} listStyleType="none" p={0} my={2}>
      {searched.map(({ version, standing, is_inferred }) => (
        <Box as="li" key={version}>
          <Badge
            colorPalette={STANDING[standing] ?? "gray"}
            variant={is_inferred ? "outline" : standing === "first_bad" ? "solid" : "subtle"}
          >
            {version}: {words(standing)}
            {is_inferred && ["good", "bad"].includes(standing) && " (not tested)"}
          </Badge>
        </Box>
      ))}
    </Flex>
  );
}

const STEP_COLUMNS: Column<BisectStep>[] = [
  { name: "Test", cell: (test) => `${test.number} (${test.kind})` },
  { name: "Version", cell: (test) => test.version },
  { name: "Beside", cell: (test) => test.against },
  { name: "It is", cell: (test) => <State name={test.result ?? test.status} /> },
  {
    name: "Against it",
    isNumber: true,
    cell: (test) => <Ratio ratio={test.ratio} low={test.low} high={test.high} />,
  },
  {
    name: "Rounds",
    isNumber: true,
    cell: (test) => (
      <Link to={routes.comparison(test.comparison_id)} label={`Rounds of test ${test.number}`}>
        {test.rounds ?? 0} of {test.wanted_rounds}
      </Link>
    ),
  },
  { name: "Took", isNumber: true, cell: (test) => minutes(test.spent_s) },
  { name: "Why", cell: (test) => <bdi>{test.why}</bdi> },
];

export function BisectPage() {
  const { bisectId = "" } = useParams();
  useTitle(`Bisect ${bisectId}`);
  const answer = useApi<BisectDetail>(`experiments/bisects/${encodeURIComponent(bisectId)}`);
  return (
    <Answered answer={answer}>
      {(found) => (
        <>
          <Heading as="h1" size="lg" wordBreak="break-word">
            Bisect {found.bisect_id}
          </Heading>
          <Text>
            <State name={found.outcome ?? found.state} /> {found.line} {found.good} to {found.bad}, by{" "}
            <Link to={routes.series(found.case_id, found.cluster)}>{found.case_id}</Link> on {found.cluster}
            {found.alert_id !== null && (
              <>
                , for <AlertLink alertId={found.alert_id}>alert {found.alert_id}</AlertLink>
              </>
            )}
            {found.requested_by && (
              <>
                , asked for by <bdi>{found.requested_by}</bdi>
              </>
            )}
            .
          </Text>
          {found.sentence && <Note status={found.outcome === "found" ? "success" : "info"}>{found.sentence}</Note>}
          <Text color="fg.muted">
            {count(found.steps, "test")} ended; {Math.round(found.spent_s / 60)} of {minutes(found.budget_s)}{" "}
            used; begun {moment(found.started_at)} UTC
            {found.ended_at && `, ended ${moment(found.ended_at)} UTC`}. {found.notes.join(" ")}
          </Text>
          <Section title={count(found.searched.length, "version")}>
            <Versions searched={found.searched} />
          </Section>
          <Section title="Tests">
            <DataTable
              label={`Tests of ${found.bisect_id}`}
              columns={STEP_COLUMNS}
              rows={found.tests}
              rowKey={(test) => String(test.number)}
              none={<Text color="fg.muted">None has begun.</Text>}
            />
          </Section>
          {found.state !== "ended" && (
            <Section title="Again">
              <CommandLine
                purpose="Go on with it where nobody measures it"
                command={`nightbench bisect --resume ${found.bisect_id}`}
              />
            </Section>
          )}
        </>
      )}
    </Answered>
  );
}
