// Tables and figures of public benchmarks, with measured values next to the published ones.
import { Box, List, Text } from "@chakra-ui/react";

import { apiAddress, useApi } from "./api";
import type { Items, PublishedCell, PublishedTable } from "./api-types";
import { count, figure, words } from "./format";
import { Answered, Download, Link, Note, Section } from "./parts";
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
  { name: "Configuration", cell: scale },
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
    name: "Measured",
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
    name: "Note",
    cell: (cell) => [cell.published_dataset, cell.remark].filter(Boolean).join("; ") || "–",
  },
];

function Table({ source, name }: { source: string; name: string }) {
  const asked = { source_document: source, figure: name };
  const answer = useApi<Items<PublishedCell>>("published/cells", asked);
  return (
    <Section title={`${source} ${name}`}>
      <Text color="fg.muted" mb={2}>
        Published values were measured on other hardware, so measured values need not match them.{" "}
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
            <Note>The warehouse has no such table.</Note>
          )
        }
      </Answered>
    </Section>
  );
}

/** A table of a public benchmark, and the list of all tables. */
export function Published({ source, name }: { source: string; name: string }) {
  const answer = useApi<Items<PublishedTable>>("published");
  return (
    <>
      {source && <Table source={source} name={name} />}
      <Section title="Published tables">
        <Answered answer={answer}>
          {({ items }) =>
            items.length ? (
              <List.Root ps={5}>
                {items.map((item) => (
                  <List.Item key={`${item.source_document} ${item.figure}`}>
                    <Link to={routes.published(item.source_document, item.figure ?? "")}>
                      {item.source_document} {item.figure}
                    </Link>
                    : {count(item.cells, "value")}, {item.measured} also measured
                    {item.empty > 0 && `, ${count(item.empty, "cell")} empty in the original`}
                  </List.Item>
                ))}
              </List.Root>
            ) : (
              <Note>The warehouse has no published values.</Note>
            )
          }
        </Answered>
      </Section>
    </>
  );
}
