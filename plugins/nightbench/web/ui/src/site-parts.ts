// What both scripts of the published site use.

export const byId = (id: string) => document.getElementById(id);
export const read = <T>() => JSON.parse(byId("data")?.textContent ?? "{}") as T;

export function cell(row: HTMLTableRowElement, text: string, kind = "", link = "") {
  const made = row.insertCell();
  const head = row.closest("table")?.tHead?.rows[0]?.cells[made.cellIndex];
  made.dataset["label"] = head?.textContent ?? "";
  made.className = kind;
  if (!link) made.textContent = text;
  else made.append(Object.assign(document.createElement("a"), { href: link, textContent: text }));
  return made;
}
