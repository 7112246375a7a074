// One experiment: two builds in rounds, or several comparisons; of a bisect its versions and tests.
import { Badge, Box, Flex, Heading, Text } from "@chakra-ui/react";
import { useParams } from "react-router-dom";

import { useApi } from "./api";
import type {
  BisectSearch,
  BisectTest,
  ComparisonCase,
  ComparisonRound,
  ExperimentDetail,
  MeasuredComparison,
  SearchedVersion,
} from "./api-types";
import { Chart } from "./chart";
import { change, count, figure, interval, moment, words } from "./format";
import { AlertLink, Answered, CommandLine, Note, Section, State, useTitle } from "./parts";
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

// --- two builds -------------------------------------------------------------------------------

function roundColumns(unit: string): Column<ComparisonRound>[] {
  return [
    { name: "Round", isNumber: true, cell: (round) => round.round },
    { name: "Order", cell: (round) => round.order },
    { name: `A, ${unit}/s`, isNumber: true, cell: (round) => figure(round.a) },
    { name: `B, ${unit}/s`, isNumber: true, cell: (round) => figure(round.b) },
    { name: "B compared with A", isNumber: true, cell: (round) => change(round.ratio - 1) },
    {
      name: "Mean of the rounds so far",
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
      {found.training && (
        <Text>
          <State name={found.training.kind} /> {found.training.sentence}
        </Text>
      )}
      <Text color="fg.muted" fontSize="sm">
        {rounds.length} of {count(planned, "round")} on {found.nodes.join(", ")}; intervals of{" "}
        {(100 * found.level).toFixed(1)} % confidence.
        {found.stopped && ` The comparison stopped early: ${found.stopped}.`}
      </Text>
      {rounds.length > 1 && (
        <Chart
          label={`B compared with A in ${rounds.length} rounds, percent`}
          x={rounds.map((round) => round.round)}
          lines={[
            { name: "round", values: rounds.map((round) => percents(round.ratio)) },
            { name: "low", values: rounds.map((round) => percents(round.running_low)), isMuted: true },
            { name: "high", values: rounds.map((round) => percents(round.running_high)), isMuted: true },
          ]}
          levels={[{ at: 0, ink: "orange-fg" }]}
          unit="B compared with A in each round, percent. Grey: interval of all rounds so far. Dashed: no difference"
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

function Compared({ found, isOnly }: { found: MeasuredComparison; isOnly: boolean }) {
  return (
    <Section title={isOnly ? "Rounds" : found.comparison_id}>
      <Text>
        {found.verdict && <State name={found.verdict} />} A <bdi>{found.a}</bdi>, B <bdi>{found.b}</bdi>; the smallest
        effect that matters is {(100 * found.min_effect).toPrecision(3)} %.
      </Text>
      {found.combined && <Note>All cases together: {found.combined}.</Note>}
      {found.not_combined && <Text color="fg.muted">No mean of all cases: {found.not_combined}.</Text>}
      {found.cases.map((each) => (
        <Rounds key={each.case_id} found={each} planned={found.rounds} />
      ))}
    </Section>
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

const STEP_COLUMNS: Column<BisectTest>[] = [
  { name: "Test", cell: (test) => `${test.number} (${test.kind})` },
  { name: "Version", cell: (test) => test.version },
  { name: "Compared with", cell: (test) => test.against },
  { name: "Result", cell: (test) => <State name={test.result ?? test.status} /> },
  {
    name: "Difference",
    isNumber: true,
    cell: (test) => <Ratio ratio={test.ratio} low={test.low} high={test.high} />,
  },
  {
    name: "Rounds",
    isNumber: true,
    cell: (test) => (
      <>
        {test.rounds ?? 0} of {test.wanted_rounds}
      </>
    ),
  },
  { name: "Duration", isNumber: true, cell: (test) => minutes(test.spent_s) },
  { name: "Why", cell: (test) => <bdi>{test.why}</bdi> },
];

function Search({ bisect, searched }: { bisect: BisectSearch; searched: SearchedVersion[] }) {
  return (
    <>
      {bisect.sentence && <Note status={bisect.outcome === "found" ? "success" : "info"}>{bisect.sentence}</Note>}
      <Text color="fg.muted">
        {Math.round(bisect.spent_s / 60)} of {minutes(bisect.budget_s)} used. {bisect.notes.join(" ")}
      </Text>
      <Section title={count(searched.length, "version")}>
        <Versions searched={searched} />
      </Section>
      <Section title="Tests">
        <DataTable
          label={`Tests of ${bisect.name}`}
          columns={STEP_COLUMNS}
          rows={bisect.tests}
          rowKey={(test) => String(test.number)}
          none={<Text color="fg.muted">No test has started.</Text>}
        />
      </Section>
    </>
  );
}

export function ExperimentPage() {
  const { name = "" } = useParams();
  useTitle(`Experiment ${name}`);
  const answer = useApi<ExperimentDetail>(`experiments/${encodeURIComponent(name)}`);
  return (
    <Answered answer={answer}>
      {(found) => (
        <>
          <Heading as="h1" size="lg" wordBreak="break-word">
            {words(found.kind)} {found.name}
          </Heading>
          <Text>
            <State name={found.state === "done" ? (found.verdict ?? "done") : found.state} /> <bdi>{found.title}</bdi>, of
            suite {found.suite} on {found.cluster}
            {found.started_at && `; started ${moment(found.started_at)} UTC`}
            {found.alert_id !== null && (
              <>
                , for <AlertLink alertId={found.alert_id}>alert {found.alert_id}</AlertLink>
              </>
            )}
            , requested by <bdi>{found.requested_by}</bdi>.
          </Text>
          <Text color="fg.muted">{found.headline}</Text>
          {found.state === "running" && found.is_measured === false && (
            <Note status="warning">This experiment is not being measured now.</Note>
          )}
          {found.bisect && <Search bisect={found.bisect} searched={found.searched} />}
          {found.comparisons.map((each) => (
            <Compared key={each.comparison_id} found={each} isOnly={found.comparisons.length === 1} />
          ))}
          {(found.again || found.resume) && (
            <Section title="Measure again">
              {found.again && <CommandLine purpose="Repeat this comparison" command={found.again} />}
              {found.resume && !found.is_measured && (
                <CommandLine purpose="Continue this experiment" command={found.resume} />
              )}
            </Section>
          )}
        </>
      )}
    </Answered>
  );
}
