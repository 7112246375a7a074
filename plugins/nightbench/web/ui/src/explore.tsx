// All series: an overview; filters by every axis, search, sort, groups, small plots, kept in the address.
import { Box, Button, Flex, Heading, Text } from "@chakra-ui/react";
import { useMemo } from "react";

import { apiAddress, useApi } from "./api";
import type { AxisValue, Items, SeriesPage, SeriesRow } from "./api-types";
import { ago, count, moment, words } from "./format";
import {
  Answered,
  Choice,
  Download,
  Help,
  Link,
  Marks,
  Note,
  Search,
  State,
  useChoices,
  useTitle,
} from "./parts";
import { onDemand } from "./on-demand";
import { Overview } from "./overview";
import { routes } from "./routes";
import { Grouped, SmallMultiples } from "./small-multiples";
import { type Column, DataTable, Pager, Sparkline } from "./table";
import { FIGURES, NotKnown } from "./use";

const Curves = onDemand(() => import("./curves").then((chunk) => chunk.Curves));

const SIZES = { table: 50, plots: 24 };
const STATES = ["alert", "noisy", "drifting", "ok", "improved", "regressed", "failed", "missing"];
const MAIN = ["workload", "framework", "strategy", "cluster", "suite"];

const SORTS = ["change", "spread", "efficiency", "mfu", "measured_at"];

const SORTABLE: Record<string, readonly [key: string, order: "ascending" | "descending"]> = {
  Series: ["case_id", "ascending"],
  Spread: ["spread", "descending"],
  "Speed-up": ["efficiency", "ascending"],
  "Per device": ["mfu", "ascending"],
  Change: ["change", "ascending"],
  Measured: ["measured_at", "descending"],
};

const COLUMNS: Column<SeriesRow>[] = [
  {
    name: "Series",
    cell: (row) => (
      <Box minW={{ md: "9em" }}>
        <Link to={routes.series(row.case_id, row.cluster)}>{row.case_id}</Link>
        <Text color="fg.muted" fontSize="xs">
          on {row.cluster}, suite {row.suite}
        </Text>
      </Box>
    ),
  },
  {
    name: "Newest medians",
    cell: (row) => <Sparkline medians={row.medians} unit={row.unit} />,
  },
  ...FIGURES,
  {
    name: "State",
    cell: (row) => (
      <Box>
        <State name={row.verdict ?? "measured"} title={row.verdict_sentence ?? undefined} />{" "}
        <Marks of={row} />
      </Box>
    ),
  },
  { name: "Version", cell: (row) => row.framework_version ?? "–" },
  {
    name: "Measured",
    cell: (row) =>
      row.measured_at === null || row.measured_run_id === null ? (
        "never"
      ) : (
        <Box title={`${moment(row.measured_at)} UTC`}>
          <Link to={routes.run(row.measured_run_id)}>{ago(row.measured_at)}</Link>
        </Box>
      ),
  },
];

function Filters({
  axes,
  query,
  choose,
}: {
  axes: Items<AxisValue>;
  query: URLSearchParams;
  choose: (name: string, value: string) => void;
}) {
  const byAxis = useMemo(() => {
    const found = new Map<string, { value: string; label: string }[]>();
    for (const { axis, value, series } of axes.items) {
      found.set(axis, [...(found.get(axis) ?? []), { value, label: `${value} (${series})` }]);
    }
    return found;
  }, [axes]);
  // An axis with one value divides nothing.
  const others = [...byAxis.keys()].filter(
    (axis) => !MAIN.includes(axis) && ((byAxis.get(axis)?.length ?? 0) > 1 || query.has(axis)),
  );
  return (
    <Flex gap={3} wrap="wrap" align="end" my={3}>
      <Search what="series" value={query.get("search") ?? ""} onSearch={(text) => choose("search", text)} />
      {[...MAIN, ...others].map((axis) => (
        <Choice
          key={axis}
          name={axis}
          value={query.get(axis) ?? ""}
          values={byAxis.get(axis) ?? []}
          onChoose={(value) => choose(axis, value)}
        />
      ))}
      <Choice
        name="state"
        value={query.get("state") ?? ""}
        values={STATES.map((value) => ({ value, label: value }))}
        onChoose={(value) => choose("state", value)}
      />
      <Choice
        name="group by"
        none="nothing"
        value={query.get("together") ?? ""}
        values={[...MAIN, "state", ...others].map((value) => ({ value, label: words(value) }))}
        onChoose={(value) => choose("together", value)}
      />
      <Choice
        name="sort"
        none="series"
        value={query.get("sort") ?? ""}
        values={SORTS.map((value) => ({ value, label: words(value) }))}
        onChoose={(value) => choose("sort", value)}
      />
      <Choice
        name="shown"
        none="table"
        value={query.get("shown") ?? ""}
        values={[{ value: "plots", label: "small plots" }]}
        onChoose={(value) => choose("shown", value)}
      />
      {query.size > 0 && (
        <Button asChild size="sm" variant="ghost">
          <Link to={routes.explore()}>all series</Link>
        </Button>
      )}
    </Flex>
  );
}

export function Explore() {
  const [query, choose] = useChoices();
  useTitle("Series");
  const axes = useApi<Items<AxisValue>>("axes");
  const { shown, ...asked } = Object.fromEntries(query);
  const arePlots = shown === "plots";
  const workload = query.get("workload");
  const answer = useApi<SeriesPage>("series", {
    size: arePlots ? SIZES.plots : SIZES.table,
    ...asked,
  });
  const sort = query.get("sort") ?? "case_id";
  const columns = COLUMNS.map((column) => {
    const sortable = SORTABLE[column.name];
    if (!sortable) return column;
    const [key, order] = sortable;
    const isSorted = sort === key;
    return {
      ...column,
      sorted: isSorted ? order : undefined,
      header: (
        <Button size="xs" variant="ghost" px={1} onClick={() => choose("sort", key)}>
          {column.name} {isSorted && (order === "ascending" ? "▴" : "▾")}
        </Button>
      ),
    };
  });
  return (
    <>
      <Heading as="h1" size="lg">
        Series
      </Heading>
      <Answered answer={axes}>
        {(found) => <Filters axes={found} query={query} choose={choose} />}
      </Answered>
      {query.size === 0 && <Overview />}
      <Answered answer={answer}>
        {(found) =>
          found.total === 0 && found.items.length === 0 ? (
            <Note>No series matches these filters.</Note>
          ) : (
            <>
              <Flex gap={3} mt={4} align="center" wrap="wrap" fontSize="sm">
                <Text color="fg.muted">{count(found.total, "series", "series")}</Text>
                <Download
                  address={apiAddress("series", { ...asked, format: "csv" })}
                  file="series.csv"
                />
              </Flex>
              <Pager
                page={found.page}
                size={found.size}
                total={found.total}
                onPage={(page) => choose("page", String(page))}
              />
              <Grouped axis={query.get("together") ?? ""} rows={found.items}>
                {(rows, label) =>
                  arePlots ? (
                    <SmallMultiples rows={rows} />
                  ) : (
                    <DataTable
                      label={label}
                      columns={columns}
                      rows={rows}
                      rowKey={(row) => `${row.case_id} ${row.cluster}`}
                    />
                  )
                }
              </Grouped>
              <Help page="pages.md#read-the-values">
                <Text>Median: the median of n launches. Spread: (largest − smallest) / median.</Text>
                <Text>
                  Speed-up and efficiency: compared with the smallest case in the run that has the same batch per device.
                </Text>
                <Text>
                  Per device: model FLOP/s, their share of the peak (MFU), and the memory of the rank that uses most.{" "}
                  <NotKnown of={found.items} />
                </Text>
                <Text>Input data are synthetic, except if the name of a case contains a data set.</Text>
              </Help>
              {workload && <Curves key={workload} workload={workload} />}
            </>
          )
        }
      </Answered>
    </>
  );
}
