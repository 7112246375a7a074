// A command that a reader copies to a terminal.
import { Box, Button, Code, Flex, Text } from "@chakra-ui/react";
import { useRef, useState } from "react";

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
