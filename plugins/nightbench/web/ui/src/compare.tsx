// Two frameworks, clusters, versions, builds or runs: medians of equal work as ratios.
import { Box, Button, Field, Flex, Heading, Input, NativeSelect, Text } from "@chakra-ui/react";
import type { FormEvent } from "react";
import { useSearchParams } from "react-router-dom";

import { apiAddress, useApi } from "./api";
import type { ComparedPair, ComparedPairs, ComparedSides } from "./api-types";
import { change, figure, interval } from "./format";
import { Answered, Download, Link, Note, useTitle } from "./parts";
import { routes } from "./routes";
import { type Column, DataTable } from "./table";

const PROPERTIES = ["framework", "cluster", "version", "build", "run"];

function columns(one: string, other: string): Column<ComparedPair>[] {
  return [
    {
      name: "Work",
      cell: (pair) => (
        <Box>
          <Link to={routes.series(pair.one_case_id, pair.one_cluster)}>{pair.one_case_id}</Link>
          <Text color="fg.muted" fontSize="xs">
            {pair.other_case_id !== pair.one_case_id && (
              <>
                beside <Link to={routes.series(pair.other_case_id, pair.other_cluster)}>{pair.other_case_id}</Link>{" "}
              </>
            )}
            on {pair.one_cluster}
            {pair.other_cluster !== pair.one_cluster && (
              <>
                {" and "}
                <Link to={routes.series(pair.other_case_id, pair.other_cluster)}>{pair.other_cluster}</Link>
              </>
            )}
          </Text>
        </Box>
      ),
    },
    {
      name: one,
      isNumber: true,
      cell: (pair) => (
        <Link to={routes.run(pair.one_run_id)}>
          {figure(pair.one_throughput)} {pair.unit}/s
        </Link>
      ),
    },
    {
      name: other,
      isNumber: true,
      cell: (pair) => (
        <Link to={routes.run(pair.other_run_id)}>
          {figure(pair.other_throughput)} {pair.unit}/s
        </Link>
      ),
    },
    { name: "Ratio", isNumber: true, cell: (pair) => pair.ratio.toFixed(3) },
    {
      name: "Difference",
      isNumber: true,
      cell: (pair) => {
        const { ratio_low: low, ratio_high: high } = pair;
        const isClear = low !== null && high !== null && (low > 1 || high < 1);
        const ink = pair.ratio < 1 ? "fg.error" : "fg.success";
        return (
          <Box whiteSpace="nowrap">
            <Text as="span" fontWeight={isClear ? "semibold" : undefined} color={isClear ? ink : undefined}>
              {change(pair.ratio - 1)}
            </Text>
            <Text color="fg.muted" fontSize="xs">
              {low === null || high === null ? "no interval" : interval(low - 1, high - 1)}
            </Text>
          </Box>
        );
      },
    },
    { name: "n", isNumber: true, cell: (pair) => `${pair.one_n}, ${pair.other_n}` },
    { name: "Versions", cell: (pair) => `${pair.one_version ?? "–"}, ${pair.other_version ?? "–"}` },
  ];
}

function Pairs({ query }: { query: URLSearchParams }) {
  const [one, other] = [query.get("one") ?? "", query.get("other") ?? ""];
  const asked = Object.fromEntries(query);
  const answer = useApi<ComparedPairs>(one && other ? "compare" : "", asked);
  if (!one || !other) return <Note>Choose what to compare with what.</Note>;
  return (
    <Answered answer={answer}>
      {(found) =>
        found.items.length ? (
          <>
            <Text color="fg.muted" mb={2}>
              {found.items.length} of {found.total} pairs of equal work, the largest difference first; of
              each the newest median. A ratio above 1: {other} is faster.{" "}
              <Download address={apiAddress("compare", { ...asked, format: "csv" })} file="compare.csv" />
            </Text>
            <DataTable
              label="Pairs of equal work"
              columns={columns(one, other)}
              rows={found.items}
              rowKey={(pair) => `${pair.one_case_id} ${pair.one_cluster} ${pair.other_cluster}`}
            />
          </>
        ) : (
          <Note>No work was measured by both.</Note>
        )
      }
    </Answered>
  );
}

export function Compare() {
  const [query, setQuery] = useSearchParams();
  useTitle("Compare");
  const by = PROPERTIES.find((name) => name === query.get("by")) ?? "framework";
  const sides = useApi<ComparedSides>("compare/sides", { by });
  const send = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const typed = new FormData(event.currentTarget);
    setQuery({ by, one: String(typed.get("one")), other: String(typed.get("other")) });
  };
  return (
    <>
      <Heading as="h1" size="lg">
        Compare
      </Heading>
      <form key={`${by} ${query.get("one")} ${query.get("other")}`} onSubmit={send} aria-label="What to compare">
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
          {(["one", "other"] as const).map((side) => (
            <Field.Root key={side} w="auto" required>
              <Field.Label>{side === "one" ? "One" : "With"}</Field.Label>
              <Input name={side} size="sm" list="sides" defaultValue={query.get(side) ?? ""} autoComplete="off" />
            </Field.Root>
          ))}
          <datalist id="sides">
            {(sides.data?.items ?? []).map((side) => (
              <option key={side} value={side} />
            ))}
          </datalist>
          <Button type="submit" size="sm" variant="outline">
            Compare
          </Button>
        </Flex>
      </form>
      <Pairs query={query.has("by") ? query : new URLSearchParams({ by, ...Object.fromEntries(query) })} />
    </>
  );
}
