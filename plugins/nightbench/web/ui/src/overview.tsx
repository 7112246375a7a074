// Workloads by framework lines: how each stands to the best, how it moved, and what is published.
import { Fragment, type ReactNode } from "react";
import { Box, Flex, Heading, Table, Text } from "@chakra-ui/react";

import { apiAddress, useApi } from "./api";
import type { Overview, OverviewCell } from "./api-types";
import { change, count, percent } from "./format";
import { Answered, Download, Link, Note, Section, useTitle } from "./parts";
import { onDemand } from "./on-demand";
import { routes } from "./routes";

const Curves = onDemand(() => import("./curves").then((chunk) => chunk.Curves));

/** From a line that is the best, or nearly, to one that is far from it. */
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
                {breakable(workload)}
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

/** The workloads that have a series. */
function measured(items: OverviewCell[]): string[] {
  return [...new Set(items.filter(({ series }) => series).map(({ workload }) => workload))].sort();
}

export function OverviewPage() {
  const answer = useApi<Overview>("overview");
  useTitle("Overview");
  return (
    <>
      <Flex align="center" gap={3} wrap="wrap">
        <Heading as="h1" size="lg">
          Overview
        </Heading>
        <Download address={apiAddress("overview", { format: "csv" })} file="overview.csv" />
      </Flex>
      <Answered answer={answer}>
        {({ items }) => {
          const ours = measured(items);
          const [known, published] = [true, false].map((isOurs) =>
            items.filter(({ workload }) => ours.includes(workload) === isOurs),
          ) as [OverviewCell[], OverviewCell[]];
          return items.length ? (
            <>
              {known.length > 0 && <Heat items={known} label="Workloads by framework lines" />}
              <Text color="fg.muted" fontSize="xs" mt={2}>
                Share: the newest medians of a line over those of the best line at equal work (all other
                axes equal, same cluster); geometric mean of the series where there is another line,
                “measured” where there is none. In 30 days: newest medians against the median of the 30
                days before them. Untried: in a mode that nobody had run on such devices before.
                Published: figures of the public benchmarks, which are never mixed with measured ones.
                A dash: neither measured nor published.
              </Text>
              {ours.length > 0 && <Curves workloads={ours} />}
              {published.length > 0 && (
                <Section title="Only published">
                  <Heat items={published} label="Workloads that are only published" />
                </Section>
              )}
            </>
          ) : (
            <Note>Nothing is measured or published.</Note>
          );
        }}
      </Answered>
    </>
  );
}
