// The acceptance test of a cluster in one line; nothing if there was none.
import { Text } from "@chakra-ui/react";

import { useApi } from "./api";
import type { ClusterAcceptance, Items } from "./api-types";
import { ago, count } from "./format";
import { Answered, Link } from "./parts";
import { routes } from "./routes";

export function AcceptanceLine({ cluster }: { cluster: string }) {
  const answer = useApi<Items<ClusterAcceptance>>("nodes/acceptance");
  return (
    <Answered answer={answer}>
      {({ items }) => {
        const its = items.find((each) => each.cluster === cluster);
        if (!its) return null;
        return (
          <Text mb={2}>
            <Link to={routes.run(its.last_run_id)}>Acceptance test</Link> {ago(its.last_at)}:{" "}
            {count(its.passed, "configuration")} passed
            {its.failed > 0 && `, ${its.failed} failed`}
            {its.not_reported > 0 && `, ${its.not_reported} not reported`}
            {its.due > 0 && `, ${its.due} must be retested (${its.reasons.join("; ")}): nightbench accept ${cluster}`}.
          </Text>
        );
      }}
    </Answered>
  );
}
