// The losses of a series step by step: tonight over the last good night, other lines in grey.
import { Text } from "@chakra-ui/react";

import { useApi } from "./api";
import type { LossCurve, SeriesLosses } from "./api-types";
import { Chart, type Line } from "./chart";
import { moment, words } from "./format";
import { Answered, Link, Section, State } from "./parts";
import { routes } from "./routes";

/** Losses of builds differ in late digits. */
const loss = (value: number | null | undefined) => (value == null ? "–" : value.toPrecision(6));

const LOOKS: Record<LossCurve["role"], Partial<Line>> = {
  tonight: {},
  good: { ink: "orange-fg", isDashed: true },
  line: { isMuted: true },
};

function nameOf({ role, framework, run_id: runId, case_id: caseId, started_at: at, framework_version: version }: LossCurve) {
  const name = { tonight: "blue: the newest night", good: "orange: the last night that trained as before", line: `grey: ${framework}` };
  return (
    <>
      <Link to={routes.case(runId, caseId)}>{name[role]}</Link>
      {role !== "line" && ` (${moment(at)} UTC${version ? `, ${version}` : ""})`}
    </>
  );
}

function Curves({ steps, curves }: SeriesLosses) {
  const [tonight] = curves;
  if (!tonight) return null;
  const short = (curve: LossCurve) => (curve.role === "line" ? curve.framework : words(curve.role));
  return (
    <Section title="Losses in the measurement window">
      {tonight.training && (
        <Text>
          <State name={tonight.training} /> {tonight.training_sentence}
        </Text>
      )}
      <Chart
        label={`Losses of ${tonight.case_id}: ${steps.length} steps of ${curves.length} curves`}
        x={steps}
        lines={curves.map((curve) => ({
          name: short(curve),
          values: steps.map((_, place) => curve.losses[place] ?? null),
          isSparse: true,
          ...LOOKS[curve.role],
        }))}
        unit="Loss at each step. The first step and the steps of the measurement window are recorded."
        readout={(place) =>
          `step ${steps[place]}: ${curves.map((curve) => `${short(curve)} ${loss(curve.losses[place])}`).join(", ")}`
        }
      />
      <Text color="fg.muted" fontSize="xs">
        {curves.map((curve, place) => (
          <Text as="span" key={`${curve.role} ${curve.case_id}`}>
            {place > 0 && "; "}
            {nameOf(curve)}
          </Text>
        ))}
      </Text>
    </Section>
  );
}

/** The losses of a series; nothing if none are stored. */
export function Losses({ caseId, cluster }: { caseId: string; cluster: string }) {
  const answer = useApi<SeriesLosses>(`losses/${encodeURIComponent(cluster)}/${encodeURIComponent(caseId)}`);
  return <Answered answer={answer}>{(found) => <Curves {...found} />}</Answered>;
}
