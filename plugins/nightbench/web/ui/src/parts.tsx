// Building blocks of the pages.
import {
  Alert,
  Badge,
  Box,
  Button,
  Code,
  Flex,
  Heading,
  Input,
  Link as ChakraLink,
  NativeSelect,
  Spinner,
  Text,
} from "@chakra-ui/react";
import { Component, type ReactNode, useEffect, useId, useRef, useState } from "react";
import { Link as RouterLink, type NavigateOptions, useSearchParams } from "react-router-dom";

import { address, ApiError } from "./api";
import type { Morning } from "./api-types";
import { change, count, interval, lowerIsBetter, moment, words } from "./format";
import { routes } from "./routes";
import { pieces } from "./text-links";

/** A link to a page of the UI. */
export function Link({ to, children, label }: { to: string; children: ReactNode; label?: string }) {
  return (
    <ChakraLink asChild display="inline" color="fg.info" wordBreak="break-word">
      <RouterLink to={to} aria-label={label}>
        {children}
      </RouterLink>
    </ChakraLink>
  );
}

/** A text of a user, with its addresses as links. */
export function Written({ text }: { text: string }) {
  return (
    <bdi>
      {pieces(text).map((piece, place) =>
        piece.isAddress ? (
          <ChakraLink key={place} display="inline" color="fg.info" wordBreak="break-all" href={piece.text} target="_blank" rel="noopener noreferrer">
            {piece.text}
          </ChakraLink>
        ) : (
          piece.text
        ),
      )}
    </bdi>
  );
}

export function Download({ address, file }: { address: string; file: string }) {
  return (
    <ChakraLink color="fg.info" href={address} download={file}>
      CSV
    </ChakraLink>
  );
}

export function AlertLink({ alertId, children }: { alertId: number; children?: ReactNode }) {
  return <Link to={routes.alert(alertId)}>{children ?? `Alert ${alertId}`}</Link>;
}

/** The alert of a series, its drift and its noise, where it has any. */
export function Marks({
  of: { alert_id, alert_verdict, alert_change, drift, noisy },
}: {
  of: Record<"alert_id" | "alert_change" | "drift", number | null> &
    Record<"alert_verdict" | "noisy", string | null>;
}) {
  return (
    <>
      {alert_id !== null && (
        <AlertLink alertId={alert_id}>
          alert {alert_id}
          {alert_verdict === "training_changed"
            ? `: ${words(alert_verdict)}`
            : alert_change !== null && `: ${change(alert_change)}`}
        </AlertLink>
      )}{" "}
      {drift !== null && <State name="drifting" title={change(drift)} />}{" "}
      {noisy && <State name="noisy" title={noisy} />}
    </>
  );
}

const COLOURS: Record<string, string> = {
  ok: "green",
  improved: "green",
  faster: "green",
  good: "green",
  found: "green",
  resolved: "green",
  not_confirmed: "green",
  regressed: "red",
  changed: "red",
  slower: "red",
  bad: "red",
  failed: "red",
  missing: "red",
  alert: "red",
  open: "red",
  confirmed: "red",
  noisy: "orange",
  drifting: "orange",
  quarantined: "orange",
  watched: "orange",
  acknowledged: "orange",
  high: "red",
  medium: "orange",
  "not good enough": "red",
  suspect: "orange",
  cancelled: "orange",
  unavailable: "orange",
};

/** A state in words and a colour; the words alone say it. */
export function State({ name, title }: { name: string; title?: string }) {
  return (
    <Badge colorPalette={COLOURS[name] ?? "gray"} title={title} variant="subtle">
      {words(name)}
    </Badge>
  );
}

/** A relative change with its 90 % interval below; coloured if the interval excludes 0. */
export function Change({
  of: { change: value, level_change: level, change_low: low, change_high: high, metric },
}: {
  of: Record<"change" | "level_change" | "change_low" | "change_high", number | null> & {
    metric: string | null;
  };
}) {
  if (value === null) return <>–</>;
  const isWorse = value < 0 !== lowerIsBetter(metric);
  const isClear = low !== null && high !== null && low * high > 0;
  return (
    <Box whiteSpace="nowrap">
      <Text
        as="span"
        color={!isClear ? undefined : isWorse ? "fg.error" : "fg.success"}
        fontWeight={isClear ? "semibold" : undefined}
      >
        {change(value)}
      </Text>
      <Text color="fg.muted" fontSize="xs">
        {level !== null && change(level) !== change(value) && (
          <>
            level {change(level)}:
            <br />
          </>
        )}
        {interval(low, high)}
        {metric === "training" ? "of the loss" : metric !== null && metric !== "throughput" && ` of ${words(metric)}`}
      </Text>
    </Box>
  );
}

export function Note({
  children,
  status = "info",
}: {
  children: ReactNode;
  status?: "info" | "warning" | "error" | "success";
}) {
  return (
    <Alert.Root status={status} my={3}>
      <Alert.Indicator />
      <Alert.Content display="block">{children}</Alert.Content>
    </Alert.Root>
  );
}

export function Failure({ error }: { error: Error }) {
  const isAway = error instanceof ApiError && error.status === 503;
  return (
    <Note status="error">
      <Text fontWeight="semibold">
        {isAway ? "The warehouse does not answer" : "This page could not be loaded"}
      </Text>
      <Text>{error.message}</Text>
      {isAway && (
        <Text>No result is lost: results wait in the spool and are loaded when the warehouse is back.</Text>
      )}
    </Note>
  );
}

export function Reading() {
  return (
    <Flex role="status" aria-label="Loading" p={8} justify="center">
      <Spinner />
    </Flex>
  );
}

/** The answer of the API, a spinner while it loads, or the error. */
export function Answered<T>({
  answer,
  children,
}: {
  answer: { data?: T; error?: Error };
  children: (data: T) => ReactNode;
}) {
  if (answer.error) return <Failure error={answer.error} />;
  if (answer.data === undefined) return <Reading />;
  return <>{children(answer.data)}</>;
}

/** A name and its value in a `dl`. */
export function Fact({ name, children }: { name: string; children: ReactNode }) {
  return (
    <Box>
      <Text as="dt" color="fg.muted" fontSize="sm">
        {name}
      </Text>
      <Box as="dd" m={0} overflowWrap="anywhere">
        {children}
      </Box>
    </Box>
  );
}

/** Facts side by side, as many as fit. */
export function Facts({ children }: { children: ReactNode }) {
  return (
    <Box
      as="dl"
      display="grid"
      gridTemplateColumns="repeat(auto-fill, minmax(min(100%, 13em), 1fr))"
      gap={3}
      my={3}
    >
      {children}
    </Box>
  );
}

/** Sentences of the warehouse, a paragraph each. */
export function Sentences({ of }: { of: string[] }) {
  return of.map((sentence) => (
    <Text key={sentence}>
      <bdi>{sentence}</bdi>
    </Text>
  ));
}

/** A field that searches by name when it is sent. */
export function Search({ what, value, onSearch }: { what: string; value: string; onSearch: (text: string) => void }) {
  return (
    <form
      role="search"
      onSubmit={(event) => {
        event.preventDefault();
        onSearch(String(new FormData(event.currentTarget).get("search") ?? ""));
      }}
    >
      <Flex gap={2} align="end">
        <Input
          key={value}
          name="search"
          size="sm"
          aria-label={`Search ${what} by name`}
          placeholder="Search by name"
          defaultValue={value}
        />
        <Button type="submit" size="sm" variant="outline">
          Search
        </Button>
      </Flex>
    </form>
  );
}

export function AlertState({
  alert,
}: {
  alert: { state: string; snoozed_until: string | null; dismissed_as?: string | null };
}) {
  return (
    <Box>
      <State name={alert.state} /> {alert.dismissed_as && words(alert.dismissed_as)}
      {alert.snoozed_until && Date.parse(alert.snoozed_until) > Date.now() && (
        <Text fontSize="xs">snoozed until {moment(alert.snoozed_until)} UTC</Text>
      )}
    </Box>
  );
}

export function Confirmation({
  alert,
}: {
  alert: { confirmation: string | null; confirmation_state: string | null };
}) {
  if (alert.confirmation) return <State name={alert.confirmation} />;
  const state = alert.confirmation_state ?? "";
  if (["queued", "running"].includes(state)) return <State name="repeat measurement pending" />;
  return state === "cancelled" ? <State name="repeat measurement cancelled" /> : null;
}

export function Section({ title, children }: { title: ReactNode; children: ReactNode }) {
  return (
    <Box as="section" mt={6}>
      <Heading as="h2" size="md" mb={2}>
        {title}
      </Heading>
      {children}
    </Box>
  );
}

/** A help icon; it shows how to read a table or a plot, and links to a page of the documentation. */
export function Help({ page, children }: { page: string; children?: ReactNode }) {
  return (
    <Box as="details" color="fg.muted" fontSize="sm" my={1} maxW="80ch">
      <Box as="summary" cursor="pointer" listStyleType="none" w="fit-content">
        <Badge rounded="full">?</Badge> How to read this
      </Box>
      {children}
      <ChakraLink color="fg.info" href={address(`nightbench/help/${page}`)} target="_blank">
        Documentation
      </ChakraLink>
    </Box>
  );
}

/** The output of a program, in a box of its own that the keyboard can scroll. */
export function Output({ label, children }: { label: string; children: string }) {
  return (
    <Box
      as="pre"
      tabIndex={0}
      role="region"
      aria-label={label}
      fontSize="xs"
      p={2}
      my={2}
      borderWidth="1px"
      borderRadius="md"
      maxH="30em"
      overflow="auto"
      whiteSpace="pre-wrap"
      overflowWrap="anywhere"
    >
      {children}
    </Box>
  );
}

export function useTitle(title: string): void {
  useEffect(() => {
    const before = document.title;
    document.title = `${title} - Benchmarks`;
    return () => {
      document.title = before;
    };
  }, [title]);
}

/** Shows an error instead of the Nightbench page in which it occurred, so that Airflow's own page remains. */
export class Boundary extends Component<{ children: ReactNode }, { error?: Error }> {
  override state: { error?: Error } = {};

  static getDerivedStateFromError(error: Error) {
    return { error };
  }

  override render() {
    return this.state.error ? <Failure error={this.state.error} /> : this.props.children;
  }
}

/** The query of the address, and a function that sets a part of it; another choice begins at page 1. */
export function useChoices(
  how?: NavigateOptions,
): [URLSearchParams, (name: string, value: string) => void] {
  const [query, setQuery] = useSearchParams();
  const choose = (name: string, value: string) =>
    setQuery((before) => {
      const next = new URLSearchParams(before);
      if (name !== "page") next.delete("page");
      if (value) next.set(name, value);
      else next.delete(name);
      return next;
    }, how);
  return [query, choose];
}

export function Choice({
  name,
  none = "all",
  value,
  values,
  onChoose,
}: {
  name: string;
  /** Label of the empty choice. */
  none?: string;
  value: string;
  values: { value: string; label: string }[];
  onChoose: (value: string) => void;
}) {
  // Around the choice, a label would have the texts of all its options in its name.
  const id = useId();
  // An address may name a value that is not offered: it stays visible as what is chosen.
  const isKnown = !value || values.some((each) => each.value === value);
  return (
    <Box>
      <Text fontSize="xs" color="fg.muted">
        <label htmlFor={id}>{words(name)}</label>
      </Text>
      <NativeSelect.Root size="sm" minW="8em" maxW="16em">
        <NativeSelect.Field
          id={id}
          value={value}
          onChange={(event) => onChoose(event.target.value)}
        >
          <option value="">{none}</option>
          {!isKnown && <option value={value}>{value}</option>}
          {values.map((each) => (
            <option key={each.value} value={each.value}>
              {each.label}
            </option>
          ))}
        </NativeSelect.Field>
        <NativeSelect.Indicator />
      </NativeSelect.Root>
    </Box>
  );
}

/** A command that a reader copies to a terminal. */
export function CommandLine({ purpose, command }: { purpose: string; command: string }) {
  const line = useRef<HTMLElement>(null);
  const [said, setSaid] = useState("");
  const select = () => {
    if (line.current) getSelection()?.selectAllChildren(line.current);
    setSaid("Selected: copy it with Ctrl+C.");
  };
  // Browsers offer the clipboard on HTTPS and on the same machine only.
  const copy = () =>
    navigator.clipboard ? navigator.clipboard.writeText(command).then(() => setSaid("Copied."), select) : select();
  return (
    <Box mb={2}>
      <Text color="fg.muted" fontSize="sm">
        {purpose}
      </Text>
      <Flex gap={2} align="start" wrap="wrap">
        <Code ref={line} fontSize="xs" whiteSpace="pre-wrap" overflowWrap="anywhere" py={1} flex="0 1 auto" minW="0">
          {command}
        </Code>
        <Button size="2xs" variant="outline" aria-label={`Copy: ${purpose}`} onClick={() => void copy()}>
          Copy
        </Button>
        <Text role="status" fontSize="xs" color="fg.muted">
          {said}
        </Text>
      </Flex>
    </Box>
  );
}

/** Reasons why a planned case has no result; each case is counted once. */
export const LOST = ["failed", "quarantined", "left_out", "without_result"] as const;

/** Whether a user must act, in one line. */
export function Headline({ morning }: { morning: Morning }) {
  const worst = morning.new_alerts ? morning.alerts[0]?.head : undefined;
  const lost = LOST.map((key) => ({
    key,
    cases: morning.suites.reduce((sum, run) => sum + run[key], 0),
  })).filter(({ cases }) => cases);
  const failed = lost.reduce((sum, { cases }) => sum + cases, 0);
  const parts = [
    morning.new_alerts ? count(morning.new_alerts, "new alert") : "no new alert",
    `${morning.older_alerts} still open`,
    failed
      ? `${count(failed, "case")} of the newest runs not measured (${lost
          .map(({ key, cases }) => `${cases} ${words(key)}`)
          .join(", ")})`
      : "",
    morning.missing.length ? `${count(morning.missing.length, "night")} missing` : "",
  ].filter(Boolean);
  const status = worst || morning.missing.length ? "error" : failed ? "warning" : "success";
  return (
    <Note status={status}>
      <Text fontSize="lg" fontWeight="semibold">
        {parts.join(", ")}.
      </Text>
      {worst && (
        <Text>
          Worst: {worst.case_id} on {worst.cluster}: {worst.sentence}
        </Text>
      )}
    </Note>
  );
}
