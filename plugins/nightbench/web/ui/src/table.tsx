// A table that becomes a list of cards on a narrow screen.
import { Table } from "@chakra-ui/react";
import type { ReactNode } from "react";

export type Column<Row> = {
  name: string;
  cell: (row: Row) => ReactNode;
  isNumber?: boolean;
  /** Header instead of the name, such as a button that sorts. */
  header?: ReactNode;
  sorted?: "ascending" | "descending";
};

const CARDS = {
  "@media (max-width: 48em)": {
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
};

export function DataTable<Row>({
  label,
  columns,
  rows,
  rowKey,
}: {
  label: string;
  columns: Column<Row>[];
  rows: Row[];
  rowKey: (row: Row) => string;
}) {
  return (
    <Table.Root size="sm" aria-label={label} css={CARDS}>
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
  );
}
