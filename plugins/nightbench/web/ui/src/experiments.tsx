// Experiments: running, waiting and ended ones, and the budgets.
import { Badge, Box, Button, Flex, Heading, Input, Link as ChakraLink, Text } from "@chakra-ui/react";
import { type FormEvent, useEffect, useState } from "react";

import { apiAddress, request, useApi } from "./api";
import type { ClusterBudget, ExperimentItem, Items } from "./api-types";
import { ago, count, moment } from "./format";
import { AlertLink, Answered, Failure, Help, Link, Section, State, useTitle, Written } from "./parts";
import { routes } from "./routes";
import { type Column, DataTable } from "./table";

const REFRESH_MS = 15_000;
const ENDED = 30;

/** A duration to its largest unit, with one digit where that is small. */
function lasts(seconds: number): string {
  for (const [unit, length] of [["h", 3600], ["min", 60]] as const) {
    const number = seconds / length;
    if (number >= 1) return `${number < 10 ? Number(number.toFixed(1)) : Math.round(number)} ${unit}`;
  }
  return `${Math.round(seconds)} s`;
}

/** A text with the hashes in it cut: twelve digits are enough to distinguish commits and wheels. */
const short = (text: string) => text.replace(/\b([0-9a-f]{12})[0-9a-f]{28,}\b/g, "$1");

/** A share as a bar; the text next to it gives the number. */
function Bar({ share, ink }: { share: number; ink: string }) {
  return (
    <Box aria-hidden h="6px" w="100%" maxW="20em" bg="bg.emphasized" borderRadius="full" my={1}>
      <Box h="100%" w={`${100 * Math.min(1, share)}%`} bg={ink} borderRadius="full" />
    </Box>
  );
}

// --- actions -------------------------------------------------------------------------------

const MOVES = [
  ["cancel", "Cancel", "may_cancel"],
  ["allow", "Allow", "may_decide"],
  ["refuse", "Refuse", "may_decide"],
  ["profile", "Profile", "may_profile"],
] as const;

function Moves({ of, onDone }: { of: ExperimentItem; onDone: () => void }) {
  const [open, setOpen] = useState<string>();
  const [error, setError] = useState<Error>();
  const [isSending, setSending] = useState(false);
  const offered = MOVES.filter(([, , may]) => of[may] && (of.ended_at || !of.cancelled_by));
  if (!offered.length) return null;
  const send = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const why = String(new FormData(event.currentTarget).get("why") ?? "");
    setSending(true);
    setError(undefined);
    request(apiAddress(`comparisons/${of.experiment_id}/${open}`), {
      method: "POST",
      // Another origin can send neither without permission: web/guard.py.
      headers: { "Content-Type": "application/json", "X-Nightbench-Request": "1" },
      body: JSON.stringify({ why }),
    })
      .then(() => {
        setOpen(undefined);
        onDone();
      }, setError)
      .finally(() => setSending(false));
  };
  const label = offered.find(([name]) => name === open)?.[1];
  return (
    <Box>
      <Flex gap={2} wrap="wrap" justify={{ base: "end", md: "start" }}>
        {offered.map(([name, text]) => (
          <Button
            key={name}
            size="xs"
            variant="outline"
            aria-label={`${text} ${of.name}`}
            aria-expanded={name === open}
            onClick={() => setOpen(name === open ? undefined : name)}
          >
            {text}…
          </Button>
        ))}
      </Flex>
      {label && (
        <form onSubmit={send} aria-label={`${label} ${of.name}`}>
          <Flex gap={2} mt={2} wrap="wrap">
            {open !== "profile" && (
              <Input name="why" size="xs" w="16em" maxW="100%" maxLength={2000} placeholder="Why" aria-label="Why" autoComplete="off" autoFocus />
            )}
            <Button type="submit" size="xs" loading={isSending}>
              {label} {of.name}
            </Button>
          </Flex>
        </form>
      )}
      {error && <Failure error={error} />}
    </Box>
  );
}

// --- requests ---------------------------------------------------------------------------------

/** Kind, builds, change and note of an experiment. */
function Asked({ of }: { of: ExperimentItem }) {
  return (
    <Box minW={0} textAlign="start">
      <Flex gap={2} align="center" wrap="wrap">
        <Link to={routes.experiment(of.name)}>{of.name}</Link>
        <Badge>{of.kind}</Badge>
        <State name={of.state === "done" ? (of.verdict ?? "done") : of.state} />
      </Flex>
      <Text fontSize="sm" overflowWrap="anywhere">
        <bdi title={of.title}>{short(of.title)}</bdi>
        {(["a", "b"] as const).map(
          (arm) =>
            of.links[`${arm}_log`] && (
              <ChakraLink key={arm} color="fg.info" href={of.links[`${arm}_log`]} target="_blank" ms={2}>
                log of build {arm.toUpperCase()}
              </ChakraLink>
            ),
        )}
      </Text>
      <Text color="fg.muted" fontSize="xs" overflowWrap="anywhere">
        {of.suite} on {of.cluster}, {count(of.cases.length, "case")}; by <bdi>{of.requested_by}</bdi>{" "}
        {ago(of.requested_at)}
        {of.is_fork && ", from a fork"}
        {of.priority !== 0 && [", low priority", "", ", high priority", ", of a night"][of.priority + 1]}
        {of.alert_id !== null && (
          <>
            , for <AlertLink alertId={of.alert_id}>alert {of.alert_id}</AlertLink>
          </>
        )}
      </Text>
      {(of.change_url || of.note) && (
        <Text fontSize="xs" overflowWrap="anywhere">
          <Written text={[of.change_url, of.note].filter(Boolean).join(" ")} />
        </Text>
      )}
    </Box>
  );
}

function Running({ of, onDone }: { of: ExperimentItem; onDone: () => void }) {
  return (
    <Flex as="li" borderWidth="1px" borderRadius="md" p={3} mb={2} gap={4} wrap="wrap" justify="space-between" listStyleType="none">
      <Asked of={of} />
      <Box minW="14em">
        {of.cancelled_by ? (
          <Text>
            Cancelled by <bdi>{of.cancelled_by}</bdi>; stops when the current launch ends.
          </Text>
        ) : (
          <Text>{of.ends_at ? `Until about ${moment(of.ends_at)} UTC` : "No estimate of the end"}</Text>
        )}
        {of.estimate_s !== null && <Bar share={of.spent_s / Math.max(1, of.estimate_s)} ink="blue.solid" />}
        <Text color="fg.muted" fontSize="sm">
          {lasts(of.spent_s)} of about {lasts(of.estimate_s ?? of.spent_s)}.{" "}
          <Link to={routes.experiment(of.name)}>Show rounds</Link>
        </Text>
      </Box>
      <Moves of={of} onDone={onDone} />
    </Flex>
  );
}

function waitingColumns(onDone: () => void): Column<ExperimentItem>[] {
  return [
    { name: "Position", cell: (of) => of.place ?? "–" },
    { name: "Experiment", cell: (of) => <Asked of={of} /> },
    {
      name: "Expected start (UTC)",
      cell: (of) =>
        of.state === "held"
          ? "when an operator allows it"
          : of.waits_for || (of.starts_at ? `about ${moment(of.starts_at)}` : "–"),
    },
    { name: "Estimated duration", isNumber: true, cell: (of) => (of.estimate_s === null ? "–" : lasts(of.estimate_s)) },
    { name: "Actions", cell: (of) => <Moves of={of} onDone={onDone} /> },
  ];
}

const endedColumns = (onDone: () => void): Column<ExperimentItem>[] => [
  { name: "Experiment", cell: (of) => <Asked of={of} /> },
  {
    name: "Result",
    cell: (of) => (
      <Box maxW="36em" overflowWrap="anywhere">
        {short(of.headline)}
        {of.links.profile && (
          <ChakraLink color="fg.info" href={of.links.profile} target="_blank" display="block">
            Profile
          </ChakraLink>
        )}
        {of.why.includes("\n") && (
          <Box as="details" fontSize="sm">
            <Box as="summary" cursor="pointer">
              Full message
            </Box>
            <Box as="pre" whiteSpace="pre-wrap" fontSize="xs" maxH="20em" overflow="auto" tabIndex={0}>
              {of.why.slice(of.why.indexOf("\n") + 1)}
            </Box>
          </Box>
        )}
        {(of.cancelled_by ?? of.decided_by) && (
          <Text color="fg.muted" fontSize="xs">
            by <bdi>{of.cancelled_by ?? of.decided_by}</bdi>
          </Text>
        )}
      </Box>
    ),
  },
  { name: "Ended (UTC)", cell: (of) => (of.ended_at ? moment(of.ended_at) : "–") },
  { name: "Duration", isNumber: true, cell: (of) => lasts(of.spent_s) },
  { name: "Actions", cell: (of) => <Moves of={of} onDone={onDone} /> },
];

// --- budgets ----------------------------------------------------------------------------------

function Budget({ of }: { of: ClusterBudget }) {
  const people = Object.entries(of.people);
  return (
    <Box as="li" listStyleType="none" minW="14em" flex="1 1 16em" maxW="26em">
      <Text fontWeight="semibold">{of.cluster}</Text>
      <Text fontSize="sm">
        {lasts(Math.max(0, of.day_s - of.spent_s))} of {lasts(of.day_s)} remain for all users together
      </Text>
      <Bar share={of.spent_s / of.day_s} ink={of.spent_s < of.day_s ? "blue.solid" : "orange.solid"} />
      {people.map(([person, spent_s]) => (
        <Box key={person}>
          <Text fontSize="sm">
            <bdi>{person}</bdi>: {lasts(Math.max(0, of.person_s - spent_s))} of {lasts(of.person_s)} left
          </Text>
          <Bar share={spent_s / of.person_s} ink={spent_s < of.person_s ? "blue.solid" : "orange.solid"} />
        </Box>
      ))}
      {!people.length && (
        <Text color="fg.muted" fontSize="sm">
          {lasts(of.person_s)} for each person; no person has measured yet.
        </Text>
      )}
    </Box>
  );
}

const KINDS = ["compare", "confirm", "bisect", "profile", "reference"];

export function ExperimentsPage() {
  useTitle("Experiments");
  const [kind, setKind] = useState("");
  const [reload, setReload] = useState(0);
  const read = () => setReload((number) => number + 1);
  useEffect(() => {
    const timer = setInterval(() => document.hidden || read(), REFRESH_MS);
    return () => clearInterval(timer);
  }, []);
  const answer = useApi<Items<ExperimentItem>>("experiments", { size: 200, ...(kind && { kind }) }, reload);
  const budgets = useApi<Items<ClusterBudget>>("comparisons/budgets", {}, reload);
  return (
    <>
      <Heading as="h1" size="lg">
        Experiments
      </Heading>
      <Text color="fg.muted">
        An experiment launches two builds in turn on the same nodes. To request an experiment, trigger{" "}
        <Link to="/dags/nightbench_experiments">nightbench_experiments</Link>.
      </Text>
      <Help page="comparisons.md#the-queue">
        <Text>Users and CI request comparisons and bisects. Nights request confirmations.</Text>
        <Text>Requests of nights come first. Then higher priority comes first, then the user who measured least, then the oldest request.</Text>
      </Help>
      <Flex gap={2} my={2} wrap="wrap" role="group" aria-label="Kind">
        {["", ...KINDS].map((each) => (
          <Button
            key={each}
            size="xs"
            variant={each === kind ? "solid" : "outline"}
            aria-pressed={each === kind}
            onClick={() => setKind(each)}
          >
            {each || "all kinds"}
          </Button>
        ))}
      </Flex>
      <Answered answer={answer}>
        {({ items }) => {
          const of = (...states: string[]) => items.filter(({ state }) => states.includes(state));
          const running = of("running");
          const waiting = of("queued", "held").sort(
            (one, other) => (one.place ?? 1e9) - (other.place ?? 1e9) || one.experiment_id - other.experiment_id,
          );
          const ended = items.filter(({ ended_at }) => ended_at).slice(0, ENDED);
          return (
            <>
              <Section title={running.length ? "Running" : "No running experiment"}>
                <Box as="ul" p={0}>
                  {running.map((each) => (
                    <Running key={each.experiment_id} of={each} onDone={read} />
                  ))}
                </Box>
              </Section>
              <Section title={waiting.length ? `Waiting: ${waiting.length}` : "No waiting experiment"}>
                <DataTable
                  label="Waiting"
                  columns={waitingColumns(read)}
                  rows={waiting}
                  rowKey={(each) => String(each.experiment_id)}
                  none={<></>}
                />
              </Section>
              <Section title="Budgets of the last 24 hours">
                <Answered answer={budgets}>
                  {(found) =>
                    found.items.length ? (
                      <Flex as="ul" wrap="wrap" gap={6} p={0}>
                        {found.items.map((each) => (
                          <Budget key={each.cluster} of={each} />
                        ))}
                      </Flex>
                    ) : (
                      <Text color="fg.muted">No experiment is waiting or running, and none was measured in the last 24 hours.</Text>
                    )
                  }
                </Answered>
              </Section>
              <Section title="Ended">
                <DataTable
                  label="Ended"
                  columns={endedColumns(read)}
                  rows={ended}
                  rowKey={(each) => String(each.experiment_id)}
                  none={<Text color="fg.muted">No experiment has ended yet.</Text>}
                />
              </Section>
            </>
          );
        }}
      </Answered>
    </>
  );
}
