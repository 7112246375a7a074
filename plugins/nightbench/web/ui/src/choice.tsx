// Choices that the address holds: a labelled choice among values, or none of them.
import { Box, NativeSelect, Text } from "@chakra-ui/react";
import { useId } from "react";
import { useSearchParams } from "react-router-dom";

import { words } from "./format";

/** What the address holds, and a function that sets a part of it; another choice begins at page 1. */
export function useChoices(): [URLSearchParams, (name: string, value: string) => void] {
  const [query, setQuery] = useSearchParams();
  const choose = (name: string, value: string) =>
    setQuery((before) => {
      const next = new URLSearchParams(before);
      if (name !== "page") next.delete("page");
      if (value) next.set(name, value);
      else next.delete(name);
      return next;
    });
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
  /** What stands where nothing is chosen. */
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
