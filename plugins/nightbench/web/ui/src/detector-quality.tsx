// The quality of the detector on a cluster: its grades, noisy series, how alerts ended.
import { Box, Heading, Text } from "@chakra-ui/react";
import { Fragment } from "react";

import type { DetectorGrade, Trust } from "./api-types";
import { Chart } from "./chart";
import { count, percent } from "./format";
import { bySuite, place, power, type SuiteGrades } from "./grades";
import { Help, Link, Note } from "./parts";
import { routes } from "./routes";
import { type Column, DataTable } from "./table";

function rate(grade: DetectorGrade, value: number | null): string {
  if (value === null) return "–";
  return grade.measure === "false alarms" ? value.toFixed(2) : percent(value, 0);
}

/** The power over the size of slowdowns: all suites together, and each. */
function Power({ grades }: { grades: DetectorGrade[] }) {
  const { sizes, all, suites } = power(grades);
  if (sizes.length < 2) return null;
  const lowest = suites[0];
  return (
    <Chart
      label={`Power for each size of slowdowns, ${count(suites.length, "suite")}`}
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
      unit={`Power (share of detected slowdowns, %) for each size of injected slowdowns (%). Blue: all suites together${
        lowest && suites.length > 1 ? `; red: ${lowest.name}, the lowest; grey: the others` : ""
      }.`}
      readout={(index) =>
        `Slowdowns of ${sizes[index]} %: ${all[index]?.toFixed(0) ?? "–"} % reported in all suites together; ` +
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
      name: measure === "false alarms" ? "False alarms" : `Power at ${measure.replace("%", " %")}`,
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

const OUTCOMES = [
  ["live", "live"],
  ["resolved", "resolved"],
  ["intended", "intended"],
  ["wont_fix", "won't fix"],
] as const;

/** The detector's grades for the suites of a cluster, its noisy series, and how its alerts ended. */
export function DetectorQuality({ cluster, trust }: { cluster: string; trust: Trust }) {
  const here = (row: { cluster: string }) => row.cluster === cluster;
  const [grades, labels] = [trust.grades.filter(here), trust.labels.find(here)];
  const silent = [
    ["noisy", trust.noisy.filter(here).length],
    ["drifting", trust.drifting.filter(here).length],
  ] as const;
  const closed = labels ? labels.alerts - labels.live : 0;
  return (
    <Box as="section" mt={4}>
      <Heading as="h3" size="sm">
        Detector quality on {cluster}
      </Heading>
      <Text>
        {silent.map(([state, number]) => (
          <Fragment key={state}>
            <Link to={routes.explore(String(new URLSearchParams({ cluster, state })))}>
              {number} {state} series
            </Link>
            {". "}
          </Fragment>
        ))}
        {labels &&
          `${count(labels.alerts, "alert")} in 365 days: ${OUTCOMES.map(([key, name]) => `${labels[key]} ${name}`).join(", ")}, ` +
            `${labels.false_alarms} false alarms${closed ? ` (${percent(labels.false_alarms / closed, 0)} of the closed alerts)` : ""}.`}
      </Text>
      {grades.map(
        ({ suite, measure, below }) =>
          below && (
            <Note key={`${suite} ${measure}`} status="warning">
              {suite}: {below}
            </Note>
          ),
      )}
      {grades.some((grade) => grade.rate !== null) ? (
        <>
          <Power grades={grades} />
          <DataTable
            label={`Grades by suite on ${cluster}`}
            columns={overview(grades)}
            rows={bySuite(grades)}
            rowKey={(row) => row.name}
          />
          <Help page="detector-tools.md#grade-the-detector">
            <Text>
              Once a week the detector is tested on synthetic series: copies of real series, some of them with an injected slowdown.
            </Text>
            <Text>Power: share of the injected slowdowns that the detector reports within 14 nights.</Text>
            <Text>False alarms: number of reports in 1,000 nights of copies without a slowdown.</Text>
          </Help>
        </>
      ) : (
        <Text color="fg.muted">No grade yet. A series is used for the test after 20 nights.</Text>
      )}
    </Box>
  );
}
