// How full the last night was for each node: minutes used and usual, as a share of the window.
import { Box, Text } from "@chakra-ui/react";

import type { NightWindowRow, NodeUse } from "./api-types";
import { count, moment, percent } from "./format";
import { type Load, loads } from "./node-load";
import { type Column, DataTable } from "./table";

function Bar({ share }: { share: number }) {
  return (
    <Box bg="bg.muted" h="0.7em" w="8em" borderRadius="sm" overflow="hidden" aria-hidden>
      <Box
        bg={share > 1 ? "red.solid" : share > 0.9 ? "orange.solid" : "blue.solid"}
        h="100%"
        w={`${Math.min(100, 100 * share)}%`}
      />
    </Box>
  );
}

export function NightLoad({ use, window }: { use: NodeUse[]; window?: NightWindowRow }) {
  const minutes = window && (Date.parse(window.ends_at) - Date.parse(window.begins_at)) / 60_000;
  const columns: Column<Load>[] = [
    { name: "Node", cell: (load) => <Text whiteSpace="nowrap">{load.node}</Text> },
    {
      name: "Suites",
      cell: (load) =>
        load.suites
          .map((each) => `${each.suite}: ${count(each.cases, "case")}, ${Math.round(each.used_s / 60)} min`)
          .join("; "),
    },
    { name: "Used", isNumber: true, cell: (load) => `${Math.round(load.used)} min` },
    { name: "Planned", isNumber: true, cell: (load) => `${Math.round(load.planned)} min` },
    ...(minutes
      ? [
          {
            name: "Of the night",
            isNumber: true,
            cell: (load: Load) => percent(load.used / minutes, 0),
          },
          { name: "Full", cell: (load: Load) => <Bar share={load.used / minutes} /> },
        ]
      : []),
  ];
  return (
    <Box mt={3}>
      <Text color="fg.muted" fontSize="sm">
        The last night
        {window &&
          `, from ${moment(window.begins_at)} to ${moment(window.ends_at)} UTC (first start to last deadline)`}
        . Planned: what these cases usually take. Cases that share a node at once count each.
      </Text>
      <DataTable
        label="How full the last night was"
        columns={columns}
        rows={loads(use)}
        rowKey={(load) => load.node}
      />
    </Box>
  );
}
