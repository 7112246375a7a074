// Building blocks of the pages.
import { Alert, Badge, Box, Flex, Heading, Link as ChakraLink, Spinner, Text } from "@chakra-ui/react";
import { Component, type ReactNode, useEffect } from "react";
import { Link as RouterLink } from "react-router-dom";

import { ApiError } from "./api";
import { change, interval, words } from "./format";
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

/** What a person wrote, addresses in it as links. */
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

const COLOURS: Record<string, string> = {
  ok: "green",
  improved: "green",
  faster: "green",
  good: "green",
  found: "green",
  resolved: "green",
  not_confirmed: "green",
  regressed: "red",
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

/** A relative change with its 95 % interval below; coloured where that lies on one side of none. */
export function Change({
  value,
  low,
  high,
}: {
  value: number | null;
  low: number | null;
  high: number | null;
}) {
  if (value === null) return <>–</>;
  const isClear = low !== null && high !== null && low * high > 0;
  return (
    <Box whiteSpace="nowrap">
      <Text
        as="span"
        color={!isClear ? undefined : value < 0 ? "fg.error" : "fg.success"}
        fontWeight={isClear ? "semibold" : undefined}
      >
        {change(value)}
      </Text>
      <Text color="fg.muted" fontSize="xs">
        {interval(low, high)}
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
        {isAway ? "The warehouse does not answer" : "This could not be read"}
      </Text>
      <Text>{error.message}</Text>
      {isAway && (
        <Text>Nothing is lost: results wait in the spool and are loaded when it is back.</Text>
      )}
    </Note>
  );
}

/** What the API answered, or that it is being read, or why it could not be. */
export function Answered<T>({
  answer,
  children,
}: {
  answer: { data?: T; error?: Error };
  children: (data: T) => ReactNode;
}) {
  if (answer.error) return <Failure error={answer.error} />;
  if (answer.data === undefined) {
    return (
      <Flex role="status" aria-label="Reading" p={8} justify="center">
        <Spinner />
      </Flex>
    );
  }
  return <>{children(answer.data)}</>;
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

/** Shows an error of these pages in their place, so that Airflow's own page stays. */
export class Boundary extends Component<{ children: ReactNode }, { error?: Error }> {
  override state: { error?: Error } = {};

  static getDerivedStateFromError(error: Error) {
    return { error };
  }

  override render() {
    return this.state.error ? <Failure error={this.state.error} /> : this.props.children;
  }
}
