// How far the verdicts can be trusted: the detector's grades, noise, drift, how alerts ended.
import { Box, Heading, Text } from "@chakra-ui/react";

import { useApi } from "./api";
import type { AlertLabels, DetectorGrade, DriftingSeries, NoisySeries, Trust } from "./api-types";
import { Chart } from "./chart";
import { change, count, day, percent } from "./format";
import { bySuite, place, power, type SuiteGrades } from "./grades";
import { Answered, Link, Note, Section, useTitle } from "./parts";
import { routes } from "./routes";
import { type Column, DataTable } from "./table";

function rate(grade: DetectorGrade, value: number | null): string {
  if (value === null) return "–";
  return grade.measure === "false alarms" ? value.toFixed(2) : percent(value, 0);
}

const SERIES: Column<NoisySeries | DriftingSeries> = {
  name: "Series",
  cell: (each) => (
    <Text as="span">
      <Link to={routes.series(each.case_id, each.cluster)}>{each.case_id}</Link> on {each.cluster}
    </Text>
  ),
};

/** The share of falls that are told over their size: all suites together, and each. */
function Power({ grades }: { grades: DetectorGrade[] }) {
  const { sizes, all, suites } = power(grades);
  if (sizes.length < 2) return null;
  const lowest = suites[0];
  return (
    <Chart
      label={`Share of falls told over their size, ${count(suites.length, "suite")}`}
      x={sizes}
      lines={[
        { name: "all suites", values: all, isSparse: true },
        ...suites.map(({ name, shares }, index) => ({
          name,
          values: shares,
          isSparse: true,
          isMuted: true,
          ...(index === 0 && suites.length > 1 && { ink: "red-fg" }),
        })),
      ]}
      unit={`Share of planted falls told, in %, over their size, in %. Blue: all suites together${
        lowest && suites.length > 1 ? `; red: ${lowest.name}, the lowest; grey: the others` : ""
      }.`}
      readout={(index) =>
        `Falls of ${sizes[index]} %: ${all[index]?.toFixed(0) ?? "–"} % told by all suites together; ` +
        suites
          .slice(0, 3)
          .map(({ name, shares }) => `${name} ${shares[index]?.toFixed(0) ?? "–"} %`)
          .join(", ")
      }
    />
  );
}

/** Columns of the measures that any suite has a grade of. */
function overview(grades: DetectorGrade[]): Column<SuiteGrades>[] {
  const graded = grades.filter((grade) => grade.rate !== null).map((grade) => grade.measure);
  const measures = [...new Set(graded)].sort((one, other) => place(one) - place(other));
  return [
    { name: "Suite", cell: (row) => row.name },
    ...measures.map((measure): Column<SuiteGrades> => ({
      name: measure === "false alarms" ? "False alarms" : `Told of ${measure.replace("%", " %")}`,
      isNumber: true,
      cell: (row) => {
        const grade = row.by.get(measure);
        if (!grade) return "–";
        return (
          <Box>
            <Text as="span" fontWeight="semibold" color={grade.below ? "red.fg" : undefined}>
              {rate(grade, grade.rate)}
            </Text>
            {grade.low !== null && grade.high !== null && (
              <Text color="fg.muted" fontSize="xs">
                {rate(grade, grade.low)} to {rate(grade, grade.high)}
              </Text>
            )}
            <Text color="fg.muted" fontSize="xs">
              of {count(grade.trials, measure === "false alarms" ? "night" : "trial")}
              {grade.median_delay !== null && `, after ${count(grade.median_delay, "night")}`}
            </Text>
          </Box>
        );
      },
    })),
  ];
}

const NOISY: Column<NoisySeries>[] = [
  SERIES,
  { name: "Suite", cell: (each) => each.suite },
  { name: "Spread", isNumber: true, cell: (each) => percent(each.spread) },
  { name: "Limit", isNumber: true, cell: (each) => percent(each.max_spread) },
  { name: "Since", cell: (each) => <Link to={routes.run(each.since_run_id)}>{day(each.since_at)}</Link> },
  { name: "Because", cell: (each) => <bdi>{each.sentence}</bdi> },
];

const DRIFTING: Column<DriftingSeries>[] = [
  SERIES,
  { name: "Suite", cell: (each) => each.suite },
  {
    name: "Change",
    isNumber: true,
    cell: (each) => `${change(each.change)} (± ${percent(2 * each.error)})`,
  },
  { name: "Nights", isNumber: true, cell: (each) => each.nights },
  { name: "From", cell: (each) => day(each.since) },
  { name: "To", cell: (each) => <Link to={routes.run(each.seen_run_id)}>{day(each.seen_at)}</Link> },
];

const LABELS: Column<AlertLabels>[] = [
  { name: "Cluster", cell: (row) => row.cluster },
  { name: "Alerts", isNumber: true, cell: (row) => row.alerts },
  { name: "Live", isNumber: true, cell: (row) => row.live },
  { name: "Resolved", isNumber: true, cell: (row) => row.resolved },
  { name: "Intended", isNumber: true, cell: (row) => row.intended },
  { name: "Won't fix", isNumber: true, cell: (row) => row.wont_fix },
  {
    name: "False alarms",
    isNumber: true,
    cell: (row) =>
      row.alerts > row.live
        ? `${row.false_alarms} (${percent(row.false_alarms / (row.alerts - row.live), 0)} of those closed)`
        : row.false_alarms,
  },
];

export function TrustPage() {
  const answer = useApi<Trust>("trust");
  useTitle("Trust");
  return (
    <>
      <Heading as="h1" size="lg">
        How far the verdicts can be trusted
      </Heading>
      <Answered answer={answer}>
        {(trust) => (
          <>
            <Section title="The detector's own grades">
              <Text color="fg.muted" mb={2}>
                Each night the detector is given copies of real series, some with a planted slowdown, some
                without a change, and does not know which. Power is the share of slowdowns that it tells
                within 14 nights; false alarms are counted in 1,000 nights of quiet copies.
              </Text>
              {trust.grades.length > 0 ? (
                <>
                  {trust.grades.map(
                    ({ suite, cluster, measure, below }) =>
                      below && (
                        <Note key={`${suite} ${cluster} ${measure}`} status="warning">
                          {suite} on {cluster}: {below}
                        </Note>
                      ),
                  )}
                  <Power grades={trust.grades} />
                  <DataTable
                    label="Grades by suite"
                    columns={overview(trust.grades)}
                    rows={bySuite(trust.grades)}
                    rowKey={(row) => row.name}
                  />
                </>
              ) : (
                <Note>
                  No grade yet: the first comes once copies of series have been judged for some nights.
                </Note>
              )}
            </Section>
            <Section title="Noisy series">
              <Text color="fg.muted" mb={2}>
                They are measured and judged as ever and open no alert of a fall. Each comes back by itself
                once it is steady.
              </Text>
              <DataTable
                label="Noisy series"
                columns={NOISY}
                rows={trust.noisy}
                rowKey={(each) => `${each.case_id} ${each.cluster}`}
                none={<Text>None.</Text>}
              />
            </Section>
            <Section title="Series that drift">
              <Text color="fg.muted" mb={2}>
                They creep by a little every night; no night of them is a regression.
              </Text>
              <DataTable
                label="Series that drift"
                columns={DRIFTING}
                rows={trust.drifting}
                rowKey={(each) => `${each.case_id} ${each.cluster}`}
                none={<Text>None.</Text>}
              />
            </Section>
            <Section title="What people made of the alerts">
              {trust.labels.length ? (
                <>
                  <Text color="fg.muted" mb={2}>
                    Alerts that were opened in the last 365 days.
                  </Text>
                  <DataTable
                    label="How alerts ended"
                    columns={LABELS}
                    rows={trust.labels}
                    rowKey={(row) => row.cluster}
                  />
                </>
              ) : (
                <Text>No alert in the last 365 days.</Text>
              )}
            </Section>
          </>
        )}
      </Answered>
    </>
  );
}
