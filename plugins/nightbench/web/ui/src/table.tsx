// Tables, the way to their further rows, and small plots in their cells.
import { Box, Button, Flex, Table, Text } from "@chakra-ui/react";
import type { ReactNode } from "react";

import { figure } from "./format";

export type Column<Row> = {
  name: string;
  cell: (row: Row) => ReactNode;
  isNumber?: boolean;
  /** Header instead of the name, such as a button that sorts. */
  header?: ReactNode;
  sorted?: "ascending" | "descending";
};

/** Cards where the columns of a table have little width. */
const cards = (columns: number) => ({
  [`@container (max-width: ${Math.max(48, 7 * columns)}em)`]: {
    "& thead": { position: "absolute", clip: "rect(0 0 0 0)", width: "1px", overflow: "hidden" },
    "& tbody, & tr": { display: "block", width: "100%" },
    "& tr": { borderWidth: "1px", borderRadius: "md", padding: "2", marginBottom: "2" },
    "& td": {
      display: "flex",
      gap: "3",
      justifyContent: "space-between",
      textAlign: "end",
      border: "0",
      padding: "1",
    },
    "& td::before": { content: "attr(data-label)", color: "fg.muted", flexShrink: "0" },
    "& td > *": { minWidth: "0", overflowWrap: "anywhere" },
  },
});

/** A table that becomes a list of cards where it has little width. */
export function DataTable<Row>({
  label,
  columns,
  rows,
  rowKey,
  none,
}: {
  label: string;
  columns: Column<Row>[];
  rows: Row[];
  rowKey: (row: Row) => string;
  /** Text instead of a table without rows. */
  none?: ReactNode;
}) {
  if (none !== undefined && !rows.length) return <>{none}</>;
  return (
    <Box css={{ containerType: "inline-size", overflowX: "auto" }}>
    <Table.Root size="sm" aria-label={label} css={cards(columns.length)}>
      <Table.Header>
        <Table.Row>
          {columns.map(({ name, header, isNumber, sorted }) => (
            <Table.ColumnHeader
              key={name}
              aria-sort={sorted}
              color="fg.muted"
              textAlign={isNumber ? "end" : "start"}
            >
              {header ?? name}
            </Table.ColumnHeader>
          ))}
        </Table.Row>
      </Table.Header>
      <Table.Body>
        {rows.map((row) => (
          <Table.Row key={rowKey(row)}>
            {columns.map(({ name, cell, isNumber }) => (
              <Table.Cell
                key={name}
                data-label={name}
                textAlign={isNumber ? "end" : "start"}
                fontVariantNumeric={isNumber ? "tabular-nums" : undefined}
                whiteSpace={isNumber ? "nowrap" : undefined}
                verticalAlign="top"
              >
                {cell(row)}
              </Table.Cell>
            ))}
          </Table.Row>
        ))}
      </Table.Body>
    </Table.Root>
    </Box>
  );
}

/** The numbers of the shown rows, and buttons to other rows. */
export function Pager({
  page,
  size,
  total,
  onPage,
}: {
  /** From 1. */
  page: number;
  size: number;
  total: number;
  onPage: (page: number) => void;
}) {
  if (total <= size && page <= 1) return null;
  return (
    <Flex gap={3} align="center" my={2} color="fg.muted" fontSize="sm" wrap="wrap">
      <Text>
        {Math.min((page - 1) * size + 1, total)} to {Math.min(page * size, total)} of {total}
      </Text>
      <Button size="xs" variant="outline" disabled={page <= 1} onClick={() => onPage(page - 1)}>
        Previous
      </Button>
      <Button
        size="xs"
        variant="outline"
        disabled={page * size >= total}
        onClick={() => onPage(page + 1)}
      >
        Next
      </Button>
    </Flex>
  );
}

const WIDTH = 120;
const HEIGHT = 28;
const EDGE = 3;

/** A small plot of the newest medians, without axes. */
export function Sparkline({
  medians,
  unit,
  isWide = false,
}: {
  medians: number[];
  unit: string | null;
  /** The plot is as wide as its container. */
  isWide?: boolean;
}) {
  const last = medians.at(-1);
  if (last === undefined) return <>–</>;
  const low = Math.min(...medians);
  const high = Math.max(...medians);
  const x = (index: number) =>
    EDGE + (index * (WIDTH - 2 * EDGE)) / Math.max(1, medians.length - 1);
  const y = (value: number) =>
    high === low ? HEIGHT / 2 : EDGE + ((high - value) * (HEIGHT - 2 * EDGE)) / (high - low);
  return (
    <Box color="fg.info" display={isWide ? "block" : "inline-block"} lineHeight="0">
      <svg
        width={isWide ? "100%" : WIDTH}
        height={isWide ? undefined : HEIGHT}
        viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
        role="img"
        aria-label={`${medians.length} medians, ${figure(low)} to ${figure(high)} ${unit ?? "units"}/s, the last ${figure(last)}`}
      >
        <polyline
          fill="none"
          stroke="currentColor"
          strokeWidth="1.5"
          points={medians.map((value, index) => `${x(index)},${y(value)}`).join(" ")}
        />
        <circle cx={x(medians.length - 1)} cy={y(last)} r="2.5" fill="currentColor" />
      </svg>
    </Box>
  );
}
