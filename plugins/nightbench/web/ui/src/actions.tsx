// What a user may do with an alert: a button for each action, and the form that it opens.
import { Box, Button, Checkbox, Field, Flex, Input, NativeSelect, Text, Textarea } from "@chakra-ui/react";
import { type FormEvent, useState } from "react";

import { apiAddress, request } from "./api";
import type { AlertDetail, OfferedAction } from "./api-types";
import { Failure } from "./parts";

function Extra({ action, alert }: { action: OfferedAction; alert: AlertDetail }) {
  if (action.field === "reason") {
    return (
      <Field.Root required>
        <Field.Label>Reason for closing</Field.Label>
        <NativeSelect.Root size="sm">
          <NativeSelect.Field name="reason" defaultValue="">
            <option value="">choose</option>
            {Object.entries(alert.reasons).map(([value, label]) => (
              <option key={value} value={value}>
                {label}
              </option>
            ))}
          </NativeSelect.Field>
          <NativeSelect.Indicator />
        </NativeSelect.Root>
      </Field.Root>
    );
  }
  if (action.field === "until") {
    return (
      <Field.Root required>
        <Field.Label>No messages until (UTC), such as 12h, 3d, 2w or 2026-12-01</Field.Label>
        <Input name="until" size="sm" defaultValue="3d" autoComplete="off" />
      </Field.Root>
    );
  }
  if (action.field === "owner") {
    return (
      <Field.Root>
        <Field.Label>Owner</Field.Label>
        <Input name="owner" size="sm" maxLength={200} defaultValue={alert.owner ?? ""} autoComplete="off" />
      </Field.Root>
    );
  }
  return null;
}

function ActionForm({
  action,
  alert,
  onDone,
}: {
  action: OfferedAction;
  alert: AlertDetail;
  onDone: () => void;
}) {
  const [error, setError] = useState<Error>();
  const [isSending, setSending] = useState(false);
  const [isWhole, setWhole] = useState(false);
  const send = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const typed = Object.fromEntries(new FormData(event.currentTarget)) as Record<string, string>;
    const body = { why: typed.why ?? "", group: isWhole } as Record<string, unknown>;
    if (action.field) body[action.field] = typed[action.field] ?? "";
    setSending(true);
    request(apiAddress(`alerts/${alert.alert_id}/${action.name}`), {
      method: "POST",
      // Another origin can send neither without permission: web/guard.py.
      headers: { "Content-Type": "application/json", "X-Nightbench-Request": "1" },
      body: JSON.stringify(body),
    }).then(onDone, (found: Error) => {
      setError(found);
      setSending(false);
    });
  };
  return (
    <Box borderWidth="1px" borderRadius="md" p={3} mt={2} maxW="36em">
      <form onSubmit={send} aria-label={action.label}>
        <Text color="fg.muted" fontSize="sm">
          {action.hint}
        </Text>
        {error && <Failure error={error} />}
        <Flex direction="column" gap={3} mt={2}>
          <Extra action={action} alert={alert} />
          <Field.Root>
            <Field.Label>Reason, with a link to the report if there is one</Field.Label>
            <Textarea name="why" size="sm" rows={2} maxLength={2000} />
          </Field.Root>
          {alert.group.length > 0 && (
            <Checkbox.Root checked={isWhole} onCheckedChange={({ checked }) => setWhole(checked === true)}>
              <Checkbox.HiddenInput />
              <Checkbox.Control />
              <Checkbox.Label>for all {alert.group.length} alerts of this cause</Checkbox.Label>
            </Checkbox.Root>
          )}
          <Button type="submit" size="sm" alignSelf="start" loading={isSending}>
            {action.label}
          </Button>
        </Flex>
      </form>
    </Box>
  );
}

export function Actions({ alert, onDone }: { alert: AlertDetail; onDone: () => void }) {
  const [open, setOpen] = useState<string>();
  const action = alert.actions.find((each) => each.name === open);
  if (!alert.actions.length) return null;
  return (
    <Box as="section" aria-label="Actions" my={4}>
      <Flex gap={2} wrap="wrap">
        {alert.actions.map((each) => (
          <Button
            key={each.name}
            size="sm"
            variant="outline"
            aria-expanded={each.name === open}
            onClick={() => setOpen(each.name === open ? undefined : each.name)}
          >
            {each.label}…
          </Button>
        ))}
      </Flex>
      {action && (
        <ActionForm
          key={action.name}
          action={action}
          alert={alert}
          onDone={() => {
            setOpen(undefined);
            onDone();
          }}
        />
      )}
    </Box>
  );
}
