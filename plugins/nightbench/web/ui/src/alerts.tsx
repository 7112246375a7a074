// Alerts, the worst first; those of one cause, or of one first bad run, in one row.
import { Flex, Heading, Text } from "@chakra-ui/react";

import { ALERT_COLUMNS } from "./alert-table";
import { useApi } from "./api";
import type { AlertGroups, AxisValue, Items } from "./api-types";
import { count } from "./format";
import { Answered, Choice, Help, Link, Note, useChoices, useTitle } from "./parts";
import { routes } from "./routes";
import { DataTable, Pager } from "./table";

const STATES = ["open", "acknowledged", "resolved", "dismissed", "all"];
const TOGETHER = [
  { value: "onset", label: "first bad run" },
  { value: "nothing", label: "nothing" },
];

export function Alerts() {
  const [query, choose] = useChoices();
  useTitle("Alerts");
  const axes = useApi<Items<AxisValue>>("axes");
  const answer = useApi<AlertGroups>("alerts/groups", Object.fromEntries(query));
  const values = (axis: string) =>
    (axes.data?.items ?? [])
      .filter((each) => each.axis === axis)
      .map(({ value }) => ({ value, label: value }));
  return (
    <>
      <Heading as="h1" size="lg">
        Alerts
      </Heading>
      <Flex gap={3} wrap="wrap" my={3}>
        <Choice
          name="state"
          none="not closed"
          value={query.get("state") ?? ""}
          values={STATES.map((value) => ({ value, label: value }))}
          onChoose={(value) => choose("state", value)}
        />
        {["cluster", "framework"].map((axis) => (
          <Choice
            key={axis}
            name={axis}
            value={query.get(axis) ?? ""}
            values={values(axis)}
            onChoose={(value) => choose(axis, value)}
          />
        ))}
        <Choice
          name="group by"
          none="cause"
          value={query.get("together") ?? ""}
          values={TOGETHER}
          onChoose={(value) => choose("together", value)}
        />
      </Flex>
      <Answered answer={answer}>
        {(found) =>
          found.total ? (
            <>
              <Text color="fg.muted" fontSize="sm">
                {count(found.alerts, "alert")} in {count(found.total, "group")}, worst first.
              </Text>
              <Pager
                page={found.page}
                size={found.size}
                total={found.total}
                onPage={(page) => choose("page", String(page))}
              />
              <DataTable
                label="Alerts"
                columns={ALERT_COLUMNS}
                rows={found.items}
                rowKey={({ head }) => String(head.alert_id)}
              />
              <Help page="alerts.md#severity">
                <Text>
                  High: the series no longer yields a result or trains differently; or the whole interval of the drop is beyond 10 %; or at least five series dropped together.
                </Text>
                <Text>
                  Low: a repeated measurement did not confirm the drop, or the drop concerns a single series and may be less than 3 %.
                </Text>
                <Text>Medium: all other alerts.</Text>
              </Help>
            </>
          ) : (
            <Note>
              No alert matches these filters.{" "}
              <Link to={`${routes.alerts()}?state=all`}>Show all alerts, including closed alerts</Link>
            </Note>
          )
        }
      </Answered>
    </>
  );
}
