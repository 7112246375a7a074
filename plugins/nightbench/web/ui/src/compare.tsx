// Two frameworks, clusters, versions, builds or runs: medians of equal work as ratios; published tables.
import { Box, Button, Field, Flex, Heading, Input, NativeSelect, Text } from "@chakra-ui/react";
import type { FormEvent } from "react";
import { useNavigate, useSearchParams } from "react-router-dom";

import { apiAddress, useApi } from "./api";
import type { ComparedPair, ComparedPairs, Items, ProposedSides, RatioMean } from "./api-types";
import { Chart } from "./chart";
import { sortedRatios } from "./figure-cells";
import { change, count, figure, interval, percent } from "./format";
import { onDemand } from "./on-demand";
import { Answered, Download, Link, Note, useTitle } from "./parts";
import { routes } from "./routes";
import { type Column, DataTable, Pager } from "./table";
import { printed } from "./use";

const PUBLISHED = "published";
const PROPERTIES = ["framework", "cluster", "version", "build", "run", PUBLISHED];

const Published = onDemand(() => import("./published").then((chunk) => chunk.Published));

function Work({ pair }: { pair: ComparedPair }) {
  const first = pair.one_case_id ?? pair.other_case_id ?? "";
  const firstCluster = pair.one_cluster ?? pair.other_cluster ?? "";
  const isOtherCase = pair.other_case_id !== null && pair.other_case_id !== first;
  const isElsewhere = pair.other_cluster !== null && pair.other_cluster !== firstCluster;
  return (
    <Box>
      <Link to={routes.series(first, firstCluster)}>{first}</Link>
      <Text color="fg.muted" fontSize="xs">
        {isOtherCase && (
          <>
            and{" "}
            <Link to={routes.series(pair.other_case_id ?? "", pair.other_cluster ?? "")}>
              {pair.other_case_id}
            </Link>{" "}
          </>
        )}
        on {firstCluster}
        {isElsewhere && (
          <>
            {" and "}
            <Link to={routes.series(pair.other_case_id ?? "", pair.other_cluster ?? "")}>
              {pair.other_cluster}
            </Link>
          </>
        )}
      </Text>
    </Box>
  );
}

function Median({ pair, side }: { pair: ComparedPair; side: "one" | "other" }) {
  const [runId, caseId, value] = [pair[`${side}_run_id`], pair[`${side}_case_id`], pair[`${side}_throughput`]];
  if (runId === null || caseId === null || value === null) return <>not measured</>;
  const [tflops, mfu] = [pair[`${side}_tflops_per_device`], pair[`${side}_mfu`]];
  const reported = pair[`${side}_reported`];
  return (
    <Box>
      <Link to={routes.case(runId, caseId)}>
        {figure(value)} {pair.unit}/s
      </Link>
      {tflops !== null && (
        <Text color="fg.muted" fontSize="xs" title="of each device">
          {figure(tflops)} TFLOP/s{mfu !== null && `, MFU ${percent(mfu)}`}
        </Text>
      )}
      {reported !== null && (
        <Text color="fg.muted" fontSize="xs">
          printed: {printed({ reported })}
        </Text>
      )}
    </Box>
  );
}

function Difference({ pair }: { pair: ComparedPair }) {
  const { ratio, ratio_low: low, ratio_high: high, standing } = pair;
  if (ratio === null) return <>–</>;
  const ink = { slower: "fg.error", faster: "fg.success" }[standing as string];
  return (
    <Box whiteSpace="nowrap">
      <Text as="span" fontWeight={ink && "semibold"} color={ink}>
        {change(ratio - 1)}
      </Text>
      <Text color="fg.muted" fontSize="xs">
        {low === null || high === null ? "no interval" : interval(low - 1, high - 1)}
      </Text>
    </Box>
  );
}

const INKS: Record<string, string> = { slower: "red-fg", faster: "green-fg" };

/** All ratios of a page on one axis, from the slowest to the fastest, with their intervals. */
function Ratios({ pairs, other }: { pairs: ComparedPair[]; other: string }) {
  const navigate = useNavigate();
  const sorted = sortedRatios(pairs);
  if (sorted.length < 2) return null;
  const text = (pair: ComparedPair) =>
    `${pair.one_case_id} on ${pair.one_cluster}: ${change((pair.ratio ?? 1) - 1)}` +
    (pair.ratio_low === null || pair.ratio_high === null
      ? ""
      : ` (${interval(pair.ratio_low - 1, pair.ratio_high - 1)})`);
  return (
    <Chart
      label={`Ratios of ${count(sorted.length, "pair")}, sorted. Enter opens the series`}
      x={sorted.map((_, index) => index + 1)}
      lines={[{ name: "ratio", values: sorted.map((pair) => pair.ratio), isPoints: true }]}
      whiskers={sorted.map(({ ratio_low: low, ratio_high: high, standing }) =>
        low === null || high === null ? null : { low, high, ink: INKS[standing] ?? "fg-subtle" },
      )}
      levels={[{ at: 1, ink: "orange-fg" }]}
      unit={`Ratios with 95 % intervals, sorted. Above 1, ${other} is faster. Red: clearly slower. Green: clearly faster.`}
      readout={(index) => text(sorted[index]!)}
      onOpen={(index) => {
        const { one_case_id: caseId, one_cluster: cluster } = sorted[index]!;
        if (caseId !== null && cluster !== null) navigate(routes.series(caseId, cluster));
      }}
    />
  );
}

function columns(one: string, other: string): Column<ComparedPair>[] {
  return [
    { name: "Case", cell: (pair) => <Work pair={pair} /> },
    ...(["one", "other"] as const).map((side): Column<ComparedPair> => ({
      name: side === "other" ? other : one === other ? `${one} (baseline)` : one,
      isNumber: true,
      cell: (pair) => <Median pair={pair} side={side} />,
    })),
    { name: "Ratio", isNumber: true, cell: (pair) => pair.ratio?.toFixed(3) ?? "–" },
    { name: "Difference", isNumber: true, cell: (pair) => <Difference pair={pair} /> },
    { name: "n", isNumber: true, cell: (pair) => `${pair.one_n ?? "–"}, ${pair.other_n ?? "–"}` },
    { name: "Versions", cell: (pair) => `${pair.one_version ?? "–"}, ${pair.other_version ?? "–"}` },
  ];
}

const MEAN_COLUMNS: Column<RatioMean>[] = [
  { name: "Workload", cell: (mean) => mean.workload ?? "all" },
  { name: "Pairs", isNumber: true, cell: (mean) => mean.pairs },
  { name: "Mean ratio", isNumber: true, cell: (mean) => mean.ratio.toFixed(3) },
  { name: "Mean difference", isNumber: true, cell: (mean) => change(mean.ratio - 1) },
];

function Means({ means }: { means: RatioMean[] }) {
  const all = means[0];
  if (!all) return null;
  return (
    <Box as="details" mb={3}>
      <Box as="summary" cursor="pointer">
        Geometric mean of {count(all.pairs, "ratio")}: {all.ratio.toFixed(3)} ({change(all.ratio - 1)});
        by workload
      </Box>
      <DataTable
        label="Geometric means by workload"
        columns={MEAN_COLUMNS}
        rows={means}
        rowKey={(mean) => mean.workload ?? ""}
      />
    </Box>
  );
}

function Pairs({ query, set }: { query: URLSearchParams; set: (changed: Record<string, string>) => void }) {
  const [one, other] = [query.get("one") ?? "", query.get("other") ?? ""];
  const asked = Object.fromEntries(query);
  const answer = useApi<ComparedPairs>(one && other ? "compare" : "", asked);
  if (!one || !other) return <Note>Select two values to compare.</Note>;
  const standing = query.get("standing") ?? "";
  return (
    <Answered answer={answer}>
      {(found) => (
        <>
          <Flex role="group" aria-label="Result of the pairs" gap={2} wrap="wrap" mb={2}>
            {(
              [
                ["", found.faster + found.slower + found.unclear, "pairs with equal work"],
                ["slower", found.slower, `clearly slower with ${other}`],
                ["faster", found.faster, `clearly faster with ${other}`],
                ["unclear", found.unclear, "unclear"],
                ["only_one", found.only_one, `only in ${one}`],
                ["only_other", found.only_other, `only in ${other}`],
              ] as const
            ).map(([name, number, label]) => (
              <Button
                key={name}
                size="xs"
                variant={standing === name ? "solid" : "outline"}
                aria-pressed={standing === name}
                disabled={number === 0 && standing !== name}
                maxW="100%"
                h="auto"
                py={1}
                whiteSpace="normal"
                overflowWrap="anywhere"
                onClick={() => set({ standing: name, page: "" })}
              >
                {number} {label}
              </Button>
            ))}
          </Flex>
          <Means means={found.means} />
          {found.items.length ? (
            <>
              <Text color="fg.muted" mb={2}>
                Newest medians, clear differences first. A ratio above 1 means that {other} is faster. A difference is clear if its interval excludes 1.{" "}
                <Download address={apiAddress("compare", { ...asked, format: "csv" })} file="compare.csv" />
              </Text>
              <Ratios pairs={found.items} other={other} />
              <DataTable
                label="Pairs with equal work"
                columns={columns(one, other)}
                rows={found.items}
                rowKey={(pair) =>
                  `${pair.one_case_id} ${pair.one_cluster} ${pair.other_case_id} ${pair.other_cluster}`
                }
              />
              <Pager
                page={found.page}
                size={found.size}
                total={found.total}
                onPage={(page) => set({ page: String(page) })}
              />
            </>
          ) : (
            <Note>{standing ? "No pair has this result." : "The two sides have no case in common."}</Note>
          )}
        </>
      )}
    </Answered>
  );
}

export function Compare() {
  const [address, setQuery] = useSearchParams();
  const isOpen = !address.has("by") && !address.has("one") && !address.has("other");
  const proposal = useApi<ProposedSides>(isOpen ? "compare/proposal" : "");
  const { one, other } = (isOpen && proposal.data) || {};
  const query = one && other ? new URLSearchParams({ by: "version", one, other, ...Object.fromEntries(address) }) : address;
  useTitle("Compare");
  const by = PROPERTIES.find((name) => name === query.get("by")) ?? "framework";
  const isPublished = by === PUBLISHED;
  const sides = useApi<Items<string>>(isPublished ? "" : "compare/sides", { by });
  const set = (changed: Record<string, string>) =>
    setQuery(() => {
      const next = new URLSearchParams({ by, ...Object.fromEntries(query), ...changed });
      for (const [name, value] of [...next]) if (!value) next.delete(name);
      return next;
    });
  const send = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const typed = new FormData(event.currentTarget);
    const given = (name: string) => String(typed.get(name) ?? "");
    set({ one: given("one"), other: given("other"), search: given("search"), page: "", standing: "" });
  };
  return (
    <>
      <Heading as="h1" size="lg">
        Compare
      </Heading>
      <Text color="fg.muted">
        {isPublished
          ? "Published benchmark values next to the newest medians with equal work."
          : "This page compares the newest stored medians, whose dates may differ by weeks."}{" "}
        To measure two builds in turn on the same nodes, use <Link to={routes.experiments()}>Experiments</Link>.
        {query !== address && " The two newest versions of the framework whose results changed most are preselected."}
      </Text>
      <form key={`${by} ${query.get("one")} ${query.get("other")} ${query.get("search")}`} onSubmit={send} aria-label="Sides to compare">
        <Flex gap={3} wrap="wrap" align="end" my={3}>
          <Field.Root w="auto">
            <Field.Label>By</Field.Label>
            <NativeSelect.Root size="sm">
              <NativeSelect.Field value={by} onChange={(event) => setQuery({ by: event.target.value })}>
                {PROPERTIES.map((name) => (
                  <option key={name}>{name}</option>
                ))}
              </NativeSelect.Field>
              <NativeSelect.Indicator />
            </NativeSelect.Root>
          </Field.Root>
          {!isPublished && (
            <>
              {(["one", "other"] as const).map((side) => (
                <Field.Root key={side} w="auto" required>
                  <Field.Label>{side === "one" ? "Baseline" : "Compared with it"}</Field.Label>
                  <Input name={side} size="sm" w="18em" maxW="100%" list="sides" defaultValue={query.get(side) ?? ""} autoComplete="off" />
                </Field.Root>
              ))}
              <Field.Root w="auto">
                <Field.Label>Search cases</Field.Label>
                <Input name="search" size="sm" defaultValue={query.get("search") ?? ""} autoComplete="off" />
              </Field.Root>
              <datalist id="sides">
                {(sides.data?.items ?? []).map((side) => (
                  <option key={side} value={side} />
                ))}
              </datalist>
              <Button type="submit" size="sm" variant="outline">
                Compare
              </Button>
            </>
          )}
        </Flex>
      </form>
      {isPublished ? (
        <Published source={query.get("source") ?? ""} name={query.get("figure") ?? ""} />
      ) : (
        <Pairs
          query={query.has("by") ? query : new URLSearchParams({ by, ...Object.fromEntries(query) })}
          set={set}
        />
      )}
    </>
  );
}
