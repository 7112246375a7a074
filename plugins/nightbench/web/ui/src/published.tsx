// The public benchmarks' tables and figures, ours beside the published values.
import { Box, Heading, List, Text } from "@chakra-ui/react";
import { useSearchParams } from "react-router-dom";

import { apiAddress, useApi } from "./api";
import type { PublishedCell, PublishedCells, PublishedTables } from "./api-types";
import { count, figure, words } from "./format";
import { Answered, Download, Link, Note, Section, useTitle } from "./parts";
import { PublishedFigure } from "./published-figure";
import { routes } from "./routes";
import { type Column, DataTable } from "./table";

function scale(cell: PublishedCell): string {
  const parts = [
    cell.strategy && words(cell.strategy),
    cell.nodes !== null && `${cell.nodes}${cell.devices_per_node === null ? " nodes" : ` x ${cell.devices_per_node}`}`,
    cell.pservers !== null && `${cell.pservers} pservers`,
    cell.trainers !== null && `${cell.trainers} trainers`,
    cell.batch_size && `batch ${cell.batch_size}`,
    cell.precision,
    cell.variant,
  ];
  return parts.filter(Boolean).join(", ");
}

const COLUMNS: Column<PublishedCell>[] = [
  { name: "Workload", cell: (cell) => cell.workload },
  {
    name: "Framework",
    cell: (cell) => [cell.framework, cell.published_version].filter(Boolean).join(" "),
  },
  { name: "Cell", cell: scale },
  { name: "Metric", cell: (cell) => words(cell.metric) },
  {
    name: "Published",
    isNumber: true,
    cell: (cell) => (
      <Box>
        {cell.published_value === null ? "empty" : `${figure(cell.published_value)} ${cell.unit ?? ""}`}
        <Text color="fg.muted" fontSize="xs">
          {cell.published_device ?? "device not stated"}
          {cell.is_unit_doubtful && "; unit doubtful"}
        </Text>
      </Box>
    ),
  },
  {
    name: "Ours",
    isNumber: true,
    cell: (cell) =>
      cell.case_id === null || cell.cluster === null ? (
        "not measured"
      ) : (
        <Box>
          <Link to={routes.series(cell.case_id, cell.cluster)}>
            {figure(cell.measured_value)} {cell.unit}
          </Link>
          <Text color="fg.muted" fontSize="xs">
            {cell.cluster}, {cell.measured_version ?? "version unknown"}, n = {cell.measured_n}
            {cell.measured_is_synthetic && ", synthetic data"}
          </Text>
        </Box>
      ),
  },
  {
    name: "Remark",
    cell: (cell) => [cell.published_dataset, cell.remark].filter(Boolean).join("; ") || "–",
  },
];

function Table({ source, name }: { source: string; name: string }) {
  const asked = { source_document: source, figure: name };
  const answer = useApi<PublishedCells>("published/cells", asked);
  return (
    <Section title={`${source} ${name}`}>
      <Text color="fg.muted" mb={2}>
        The published hardware is never ours: a value to stand beside, no target.{" "}
        <Download address={apiAddress("published/cells", { ...asked, format: "csv" })} file="published.csv" />
      </Text>
      <Answered answer={answer}>
        {({ items }) =>
          items.length ? (
            <>
              <PublishedFigure cells={items} />
              <DataTable
                label="Published values"
                columns={COLUMNS}
                rows={items}
                rowKey={(cell) => `${cell.reference_id} ${cell.case_id} ${cell.cluster}`}
              />
            </>
          ) : (
            <Note>There is no such table.</Note>
          )
        }
      </Answered>
    </Section>
  );
}

export function PublishedPage() {
  const [query] = useSearchParams();
  useTitle("Published");
  const answer = useApi<PublishedTables>("published");
  const source = query.get("source") ?? "";
  return (
    <>
      <Heading as="h1" size="lg">
        Published benchmarks
      </Heading>
      {source && <Table source={source} name={query.get("figure") ?? ""} />}
      <Section title="Tables and figures">
        <Answered answer={answer}>
          {({ items }) =>
            items.length ? (
              <List.Root ps={5}>
                {items.map((item) => (
                  <List.Item key={`${item.source_document} ${item.figure}`}>
                    <Link to={routes.published(item.source_document, item.figure ?? "")}>
                      {item.source_document} {item.figure}
                    </Link>
                    : {count(item.cells, "value")}, {item.measured} with ours beside
                    {item.empty > 0 && `, ${count(item.empty, "cell")} empty in the original`}
                  </List.Item>
                ))}
              </List.Root>
            ) : (
              <Note>The warehouse holds no published values.</Note>
            )
          }
        </Answered>
      </Section>
    </>
  );
}
