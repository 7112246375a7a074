// The script of the site for everybody (`nightbench publish`): search and comparison. It works
// from file:// as well, where pages may load scripts and nothing else: data come as scripts.
import { change, count, figure } from "./format";

const byId = (id: string) => document.getElementById(id);
const read = <T>() => JSON.parse(byId("data")?.textContent ?? "{}") as T;

function cell(row: HTMLTableRowElement, text: string, kind = "", link = "") {
  const made = row.insertCell();
  const head = row.closest("table")?.tHead?.rows[0]?.cells[made.cellIndex];
  made.dataset["label"] = head?.textContent ?? "";
  made.className = kind;
  if (!link) made.textContent = text;
  else made.append(Object.assign(document.createElement("a"), { href: link, textContent: text }));
}

/** Case, cluster, newest median, its unit, trend. */
type Found = [string, string, number, string, number | null];
/** Case, cluster, unit, digest of the work, and by build: number, median, half-width, definition. */
type Compared = [string, string, string, string, [number, number, number | null, string][]];
type Part = { search?: Found[]; line?: string; series?: Compared[] };

const root = document.body.dataset["root"] ?? "";
const waiting: ((part: Part) => void)[] = [];
const loaded = new Map<string, Promise<Part>>();
Object.assign(globalThis, { nightbenchSite: (part: Part) => waiting.shift()?.(part) });

const pageOf = (caseId: string, cluster: string) => `${root}s/${cluster}/${caseId}.html`;

/** Loads a script of data. Scripts load one after another, so that each finds the caller that requested it. */
let last: Promise<unknown> = Promise.resolve();
function part(name: string): Promise<Part> {
  const known = loaded.get(name);
  if (known) return known;
  const made = last.then(
    () =>
      new Promise<Part>((resolve, reject) => {
        waiting.length = 0;
        waiting.push(resolve);
        const script = document.createElement("script");
        script.src = root + name;
        script.onerror = () => reject(new Error(`${name} cannot be loaded`));
        document.head.append(script);
      }),
  );
  last = made.catch(() => undefined);
  loaded.set(name, made);
  return made;
}

function matches(text: string, query: string) {
  return query.toLowerCase().split(/\s+/).every((word) => text.toLowerCase().includes(word));
}

// --- search and filter ---------------------------------------------------------------------

function searchPage(form: HTMLFormElement) {
  const field = (name: string) => form.elements.namedItem(name) as HTMLInputElement;
  const names = ["q", "cluster", "trend"];
  const given = new URLSearchParams(location.hash.slice(1));
  names.forEach((name) => (field(name).value = given.get(name) ?? ""));
  const search = async () => {
    const asked = names.map((name) => [name, field(name).value.trim()] as [string, string]);
    const set = asked.filter(([, value]) => value);
    history.replaceState(null, "", set.length ? `#${new URLSearchParams(set)}` : location.pathname);
    const results = byId("results") as HTMLTableElement;
    const found = byId("found");
    const overview = byId("overview");
    results.hidden = !set.length;
    if (overview) overview.hidden = set.length > 0;
    if (found) found.textContent = "";
    if (!set.length) return;
    const { search: rows = [] } = await part("search.js");
    const [q = "", cluster = "", trend = ""] = asked.map(([, value]) => value);
    const those = rows.filter(
      ([caseId, where, , , moved]) =>
        matches(`${caseId} ${where}`, q) &&
        (!cluster || where === cluster) &&
        (!trend || (moved !== null && (trend === "down" ? moved < -0.02 : moved > 0.02))),
    );
    if (found) {
      const shown = those.length > 200 ? ", the first 200 are shown" : "";
      found.textContent = count(those.length, "series", "series") + shown;
    }
    const body = results.tBodies[0];
    body?.replaceChildren();
    for (const [caseId, where, median, unit, moved] of those.slice(0, 200)) {
      const row = body?.insertRow();
      if (!row) continue;
      cell(row, caseId, "", pageOf(caseId, where));
      cell(row, where);
      cell(row, `${figure(median)} ${unit}`, "number");
      const steady = moved === null || Math.abs(moved) <= 0.02;
      cell(row, moved === null ? "–" : change(moved), `number ${steady ? "soft" : moved < 0 ? "bad" : "good"}`);
    }
  };
  form.addEventListener("input", () => void search());
  form.addEventListener("submit", (event) => event.preventDefault());
  void search();
}

function filterPage(input: HTMLInputElement) {
  input.addEventListener("input", () => {
    const rows = [...document.querySelectorAll<HTMLTableRowElement>("#series tbody tr")];
    rows.forEach((row) => (row.hidden = !matches(row.textContent ?? "", input.value)));
    const found = byId("found");
    if (found) found.textContent = `${rows.filter((row) => !row.hidden).length} of ${rows.length}`;
  });
}

// --- comparison ----------------------------------------------------------------------------

function interval(low: number, high: number, most: number) {
  const space = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(space, "svg");
  svg.setAttribute("class", `range ${high < 1 ? "bad" : low > 1 ? "good" : "soft"}`);
  svg.setAttribute("viewBox", "0 0 120 16");
  svg.setAttribute("aria-hidden", "true");
  const x = (ratio: number) => 60 + (56 * Math.log(ratio)) / most;
  const draw = (x1: number, x2: number, y1: number, y2: number, kind: string) => {
    const line = document.createElementNS(space, "line");
    Object.entries({ x1, x2, y1, y2, class: kind }).forEach(([k, v]) => line.setAttribute(k, `${v}`));
    svg.append(line);
  };
  draw(60, 60, 0, 16, "zero");
  draw(x(low) - 1, x(high) + 1, 8, 8, "");
  return svg;
}

function comparePage(form: HTMLFormElement) {
  const builds = read<Record<string, string[]>>();
  const field = (name: string) => form.elements.namedItem(name) as HTMLSelectElement;
  const fill = (name: string, values: string[], chosen?: string | null) => {
    field(name).replaceChildren(...values.map((value) => new Option(value, value)));
    if (chosen && values.includes(chosen)) field(name).value = chosen;
  };
  const given = new URLSearchParams(location.hash.slice(1));
  const lines = Object.keys(builds);
  const names = ["line1", "build1", "line2", "build2", "q"];
  const usual = lines.find((line) => (builds[line]?.length ?? 0) > 1) ?? lines[0];
  for (const side of ["1", "2"]) {
    fill(`line${side}`, lines, given.get(`line${side}`) ?? usual);
    const own = builds[field(`line${side}`).value] ?? [];
    fill(`build${side}`, own, given.get(`build${side}`) ?? own[side === "1" ? 1 : 0]);
  }
  field("q").value = given.get("q") ?? "";
  const compare = async () => {
    const [line1 = "", build1 = "", line2 = "", build2 = "", q = ""] = names.map((name) => field(name).value);
    history.replaceState(null, "", `#${new URLSearchParams({ line1, build1, line2, build2, q })}`);
    const [one, other] = [await part(`compare/${line1}.js`), await part(`compare/${line2}.js`)];
    const number1 = builds[line1]?.indexOf(build1);
    const number2 = builds[line2]?.indexOf(build2);
    const theirs = new Map((other.series ?? []).map((row) => [`${row[3]} ${row[1]} ${row[2]}`, row]));
    const pairs = (one.series ?? []).flatMap((row) => {
      const match = theirs.get(`${row[3]} ${row[1]} ${row[2]}`);
      const a = row[4].find(([number]) => number === number1);
      const b = match?.[4].find(([number]) => number === number2);
      if (!match || !a || !b || (line1 === line2 && a[3] !== b[3])) return [];
      if (!matches(`${row[0]} ${row[1]}`, q)) return [];
      const ratio = b[1] / a[1];
      const error = a[2] === null || b[2] === null ? null : Math.hypot(a[2], b[2]);
      return [{ row, match, a, b, ratio, low: ratio * (1 - (error ?? 0)), high: ratio * (1 + (error ?? 0)), error }];
    });
    pairs.sort((x, y) => x.ratio - y.ratio);
    const most = Math.max(0.02, ...pairs.map(({ low, high }) => Math.max(Math.abs(Math.log(low)), Math.abs(Math.log(high)))));
    const mean = Math.exp(pairs.reduce((sum, { ratio }) => sum + Math.log(ratio), 0) / pairs.length);
    const slower = pairs.filter(({ high }) => high < 1).length;
    const faster = pairs.filter(({ low }) => low > 1).length;
    const found = byId("found");
    if (found) {
      found.textContent = pairs.length
        ? `${count(pairs.length, "pair")}: ${slower} slower, ${faster} faster, geometric mean ${change(mean - 1)}` +
          (pairs.length > 300 ? "; the largest changes are shown" : "")
        : "No pair did the same work.";
    }
    const table = byId("pairs") as HTMLTableElement;
    table.hidden = !pairs.length;
    const body = table.tBodies[0];
    body?.replaceChildren();
    const shown = pairs.length > 300 ? [...pairs.slice(0, 150), ...pairs.slice(-150)] : pairs;
    for (const { row, match, a, b, ratio, low, high, error } of shown) {
      const line = body?.insertRow();
      if (!line) continue;
      cell(line, row[0], "", pageOf(row[0], row[1]));
      cell(line, row[1]);
      cell(line, `${figure(a[1])} ${row[2]}/s`, "number");
      cell(line, `${figure(b[1])} ${row[2]}/s`, "number", match[0] === row[0] ? "" : pageOf(match[0], match[1]));
      cell(line, `${change(ratio - 1)}${error === null ? "" : ` ± ${(100 * error).toFixed(1)} %`}`, "number");
      line.insertCell().append(interval(low, high, most));
    }
  };
  form.addEventListener("change", (event) => {
    const name = (event.target as HTMLSelectElement).name;
    if (name.startsWith("line")) {
      const side = name.slice(4);
      fill(`build${side}`, builds[field(name).value] ?? []);
    }
    void compare();
  });
  form.addEventListener("submit", (event) => event.preventDefault());
  if (lines.length) void compare();
}

const searched = byId("search");
if (searched) searchPage(searched as HTMLFormElement);
const filtered = byId("filter");
if (filtered) filterPage(filtered as HTMLInputElement);
const compared = byId("compare");
if (compared) comparePage(compared as HTMLFormElement);
