// Which rows of many are shown, and the way to the others.
import { Button, Flex, Text } from "@chakra-ui/react";

export function Pager({
  page,
  size,
  total,
  onPage,
}: {
  /** From 1. */
  page: number;
  size: number;
  total: number;
  onPage: (page: number) => void;
}) {
  if (total <= size && page <= 1) return null;
  return (
    <Flex gap={3} align="center" my={2} color="fg.muted" fontSize="sm" wrap="wrap">
      <Text>
        {Math.min((page - 1) * size + 1, total)} to {Math.min(page * size, total)} of {total}
      </Text>
      <Button size="xs" variant="outline" disabled={page <= 1} onClick={() => onPage(page - 1)}>
        Previous
      </Button>
      <Button
        size="xs"
        variant="outline"
        disabled={page * size >= total}
        onClick={() => onPage(page + 1)}
      >
        Next
      </Button>
    </Flex>
  );
}
