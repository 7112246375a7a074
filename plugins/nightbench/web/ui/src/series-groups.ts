// Series that are grouped by an axis. Pure.

/** Rows that follow each other with one value of the axis that groups them. */
export function consecutive<Row extends { together: string | null }>(
  rows: Row[],
): { value: string | null; rows: Row[] }[] {
  const found: { value: string | null; rows: Row[] }[] = [];
  for (const row of rows) {
    const last = found.at(-1);
    if (last && last.value === row.together) last.rows.push(row);
    else found.push({ value: row.together, rows: [row] });
  }
  return found;
}
