// Where a page of a longer list stands, and the way to its neighbours.
import { Button, Flex, Text } from "@chakra-ui/react";
import type { ReactNode } from "react";

export function Pager({
  page,
  size,
  shown,
  total,
  children,
  onPage,
}: {
  page: number;
  size: number;
  /** How many this page has. */
  shown: number;
  total: number;
  children?: ReactNode;
  onPage: (page: number) => void;
}) {
  const first = (page - 1) * size;
  return (
    <Flex gap={3} align="center" mb={2} color="fg.muted" fontSize="sm" wrap="wrap">
      <Text>
        {shown ? `${first + 1} to ${first + shown} of ${total}` : `nothing on page ${page}`}
      </Text>
      {(page > 1 || first + shown < total) && (
        <>
          <Button size="xs" variant="outline" disabled={page <= 1} onClick={() => onPage(page - 1)}>
            Previous
          </Button>
          <Button
            size="xs"
            variant="outline"
            disabled={first + shown >= total}
            onClick={() => onPage(page + 1)}
          >
            Next
          </Button>
        </>
      )}
      {children}
    </Flex>
  );
}
