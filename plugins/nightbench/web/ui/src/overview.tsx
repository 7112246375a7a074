// Workloads by framework lines: the share of the best line, the change, and published values.
import { Fragment, type ReactNode } from "react";
import { Box, Table, Text } from "@chakra-ui/react";

import { apiAddress, useApi } from "./api";
import type { Items, OverviewCell } from "./api-types";
import { change, count, percent } from "./format";
import { Answered, Download, Help, Link, Section } from "./parts";
import { routes } from "./routes";

/** Colours from the best lines to lines that are much slower. */
const SHADES = [
  [0.95, "green.subtle"],
  [0.8, "yellow.subtle"],
  [0, "orange.subtle"],
] as const;

function shade({ share_of_best: share }: OverviewCell): string {
  return share === null ? "bg.muted" : SHADES.find(([least]) => share >= least)?.[1] ?? "bg.muted";
}

function Cell({ of }: { of: OverviewCell | undefined }) {
  if (!of) return <Text color="fg.muted">–</Text>;
  if (!of.series) {
    return (
      <Text color="fg.muted" fontSize="xs" whiteSpace="nowrap">
        {of.published} published
      </Text>
    );
  }
  const more = [
    of.moved === null ? "" : `${change(of.moved)} in 30 days`,
    count(of.series, "series", "series"),
    of.untried ? `${of.untried} untried` : "",
    of.published ? `${of.published} published` : "",
  ].filter(Boolean);
  return (
    <Box bg={shade(of)} borderRadius="sm" px={2} py={1} whiteSpace="nowrap">
      <Link to={routes.explore(String(new URLSearchParams({ workload: of.workload, framework: of.framework })))}>
        {of.share_of_best === null ? "measured" : percent(of.share_of_best, 0)}
      </Link>
      {more.map((text) => (
        <Text key={text} fontSize="xs" color="fg.muted">
          {text}
        </Text>
      ))}
    </Box>
  );
}

/** Rows and columns of the table: what is measured first, then what is only published. */
export function grid(items: OverviewCell[]): { workloads: string[]; lines: string[] } {
  const ordered = (key: "workload" | "framework") => {
    const series = new Map<string, number>();
    for (const each of items) series.set(each[key], (series.get(each[key]) ?? 0) + each.series);
    const isOnlyPublished = (name: string) => Number(!series.get(name));
    return [...series.keys()].sort(
      (one, other) => isOnlyPublished(one) - isOnlyPublished(other) || one.localeCompare(other),
    );
  };
  return { workloads: ordered("workload"), lines: ordered("framework") };
}

function Heat({ items, label }: { items: OverviewCell[]; label: string }) {
  const { workloads, lines } = grid(items);
  const by = new Map(items.map((each) => [`${each.workload} ${each.framework}`, each]));
  return (
    <Box overflowX="auto" mt={3} tabIndex={0} role="region" aria-label={`${label}, scrolls`}>
      <Table.Root size="sm" w="auto" aria-label={label}>
        <Table.Header>
          <Table.Row>
            <Table.ColumnHeader color="fg.muted">Workload</Table.ColumnHeader>
            {lines.map((line) => (
              <Table.ColumnHeader key={line} color="fg.muted">
                {line}
              </Table.ColumnHeader>
            ))}
          </Table.Row>
        </Table.Header>
        <Table.Body>
          {workloads.map((workload) => (
            <Table.Row key={workload}>
              <Table.ColumnHeader scope="row" position="sticky" left={0} bg="bg" zIndex={1} minW="8em" maxW="12em" overflowWrap="anywhere">
                <Link to={routes.explore(String(new URLSearchParams({ workload })))}>{breakable(workload)}</Link>
              </Table.ColumnHeader>
              {lines.map((line) => (
                <Table.Cell key={line} verticalAlign="top" px={1}>
                  <Cell of={by.get(`${workload} ${line}`)} />
                </Table.Cell>
              ))}
            </Table.Row>
          ))}
        </Table.Body>
      </Table.Root>
    </Box>
  );
}

/** A name that a narrow column breaks after its underscores first. */
function breakable(name: string): ReactNode {
  return name.split(/(?<=_)/).map((part, index) => (
    <Fragment key={index}>
      {part}
      <wbr />
    </Fragment>
  ));
}

/** The measured workloads by framework lines. */
export function Overview() {
  const answer = useApi<Items<OverviewCell>>("overview");
  return (
    <Answered answer={answer}>
      {({ items }) => {
        const ours = new Set(items.filter(({ series }) => series).map(({ workload }) => workload));
        const measured = items.filter(({ workload }) => ours.has(workload));
        if (!measured.length) return null;
        return (
          <Section
            title={
              <>
                Overview <Download address={apiAddress("overview", { format: "csv" })} file="overview.csv" />
              </>
            }
          >
            <Heat items={measured} label="Workloads by framework lines" />
            <Help page="pages.md">
              <Text>
                Percent: the newest medians of a line, divided by the newest medians of the best line with equal work. The value is a geometric mean over the line's series. “Measured” means that no other line has equal work.
              </Text>
              <Text>In 30 days: the newest medians compared with the medians of the 30 days before.</Text>
              <Text>Untried: series whose configuration has never run on this kind of device before.</Text>
              <Text>
                Published: number of values from public benchmarks (<Link to={routes.published()}>all tables</Link>). Published values are never mixed with measured values.
              </Text>
            </Help>
          </Section>
        );
      }}
    </Answered>
  );
}
