// New alerts since yesterday, the worst first; then the newest runs and missing results.
import { Code, Flex, Heading, List, NativeSelect, Text } from "@chakra-ui/react";
import { useSearchParams } from "react-router-dom";

import { ALERT_COLUMNS } from "./alert-table";
import { useApi } from "./api";
import type { AlertGroupRow, Morning, SuiteRun } from "./api-types";
import { ago, day, moment, percent, words } from "./format";
import { Answered, Headline, Link, LOST, Note, Section, useTitle } from "./parts";
import { routes } from "./routes";
import { type Column, DataTable } from "./table";

const SPANS = [
  ["1", "since yesterday"],
  ["3", "in the last 3 days"],
  ["7", "in the last 7 days"],
  ["31", "in the last 31 days"],
] as const;

const SUITE_COLUMNS: Column<SuiteRun>[] = [
  {
    name: "Suite",
    cell: (run) => (
      <Link to={routes.run(run.run_id)}>
        {run.suite} on {run.cluster}
      </Link>
    ),
  },
  {
    name: "Newest run",
    cell: (run) => (
      <Text as="span" title={`${moment(run.started_at)} UTC`}>
        {ago(run.started_at)}
        {run.run_kind !== "nightly" && `, ${words(run.run_kind)}`}
        {run.loaded_at === null && ", not loaded yet"}
      </Text>
    ),
  },
  {
    name: "Measured",
    isNumber: true,
    cell: (run) => `${run.measured} of ${run.planned}`,
  },
  ...([...LOST, "regressed", "improved"] as const).map(
    (key): Column<SuiteRun> => ({
      name: words(key).replace(/^./, (first) => first.toUpperCase()),
      isNumber: true,
      cell: (run) => (
        <Text as="span" color={run[key] ? undefined : "fg.muted"} fontWeight={run[key] ? "semibold" : undefined}>
          {run[key]}
        </Text>
      ),
    }),
  ),
];

function Empty() {
  return (
    <Note>
      <Text>
        There are no results yet. To measure a suite, trigger the DAG{" "}
        <Link to="/dags/on_demand">on_demand</Link>, or run this command:
      </Text>
      <Code my={2}>nightbench run demo</Code>
      <Text color="fg.muted">
        Results appear here when the task ingest of the run has loaded them.
      </Text>
    </Note>
  );
}

function Report({ morning }: { morning: Morning }) {
  if (morning.is_empty) return <Empty />;
  const fresh = morning.alerts.slice(0, morning.new_alerts);
  const older = morning.alerts.slice(morning.new_alerts);
  const key = ({ head }: AlertGroupRow) => String(head.alert_id);
  return (
    <>
      <Headline morning={morning} />
      {morning.grades_too_low.map((sentence) => (
        <Note key={sentence} status="warning">
          {sentence} <Link to={routes.nodes()}>Detector quality</Link>
        </Note>
      ))}
      {fresh.length > 0 && (
        <Section title={`New alerts: ${morning.new_alerts}`}>
          <DataTable label="New alerts" columns={ALERT_COLUMNS} rows={fresh} rowKey={key} />
        </Section>
      )}
      {older.length > 0 && (
        <Section title={`Alerts still open: ${morning.older_alerts}`}>
          <DataTable label="Alerts still open" columns={ALERT_COLUMNS} rows={older} rowKey={key} />
        </Section>
      )}
      {morning.new_alerts + morning.older_alerts > morning.alerts.length && (
        <Text mt={2}>
          The worst {morning.alerts.length} are shown: <Link to={routes.alerts()}>all alerts</Link>
        </Text>
      )}
      <Section title="Newest runs">
        {morning.suites.length ? (
          <DataTable
            label="The newest run of each suite"
            columns={SUITE_COLUMNS}
            rows={morning.suites}
            rowKey={(run) => run.run_id}
          />
        ) : (
          <Text color="fg.muted">No suite has run on this Airflow; all results were imported.</Text>
        )}
      </Section>
      {morning.missing.length > 0 && (
        <Section title="Nights without results">
          <List.Root ps={5}>
            {morning.missing.map((night) => (
              <List.Item key={`${night.suite} ${night.cluster} ${night.scheduled_at}`}>
                {night.suite} on {night.cluster}, {moment(night.scheduled_at)} UTC: {night.sentence}
              </List.Item>
            ))}
          </List.Root>
        </Section>
      )}
      {morning.left_out.length > 0 && (
        <Section title={`Cases left out because the night was too short: ${morning.left_out.length}`}>
          <List.Root ps={5}>
            {morning.left_out.map((each) => (
              <List.Item key={`${each.run_id} ${each.case_id}`}>
                <Link to={routes.series(each.case_id, each.cluster)}>{each.case_id}</Link> ({each.suite} on{" "}
                {each.cluster}): {words(each.code)}, {each.observed}
                {each.expected && `, expected ${each.expected}`}
              </List.Item>
            ))}
          </List.Root>
        </Section>
      )}
      {morning.noisy.length > 0 && (
        <Section title={`Too noisy for alerts: ${morning.noisy.length}`}>
          <List.Root ps={5}>
            {morning.noisy.map((each) => (
              <List.Item key={`${each.case_id} ${each.cluster}`}>
                <Link to={routes.series(each.case_id, each.cluster)}>{each.case_id}</Link> on{" "}
                {each.cluster}, since {day(each.since_at)}: {each.sentence}
              </List.Item>
            ))}
          </List.Root>
        </Section>
      )}
      {morning.drifting.length > 0 && (
        <Section title={`Drifting: ${morning.drifting.length}`}>
          <List.Root ps={5}>
            {morning.drifting.map((each) => (
              <List.Item key={`${each.case_id} ${each.cluster}`}>
                <Link to={routes.series(each.case_id, each.cluster)}>{each.case_id}</Link> on{" "}
                {each.cluster}: {percent(each.change)} (± {percent(2 * each.error)}) over{" "}
                {each.nights} nights since {day(each.since)}
              </List.Item>
            ))}
          </List.Root>
        </Section>
      )}
    </>
  );
}

export function MorningPage() {
  const [query, setQuery] = useSearchParams();
  const days = SPANS.find(([value]) => value === query.get("days"))?.[0] ?? "1";
  const answer = useApi<Morning>("morning", { days });
  useTitle("Morning");
  return (
    <>
      <Flex align="center" gap={3} wrap="wrap">
        <Heading as="h1" size="lg">
          New results
        </Heading>
        <NativeSelect.Root size="sm" w="auto">
          <NativeSelect.Field
            aria-label="New since"
            value={days}
            onChange={(event) => setQuery({ days: event.target.value })}
          >
            {SPANS.map(([value, label]) => (
              <option key={value} value={value}>
                {label}
              </option>
            ))}
          </NativeSelect.Field>
          <NativeSelect.Indicator />
        </NativeSelect.Root>
      </Flex>
      <Answered answer={answer}>{(morning) => <Report morning={morning} />}</Answered>
    </>
  );
}
