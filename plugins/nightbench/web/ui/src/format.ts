// Figures and times as text.

const MINUTE = 60_000;

/** A throughput to four significant digits. */
export function figure(value: number | null | undefined): string {
  if (value === null || value === undefined) return "–";
  if (Math.abs(value) >= 10_000) return Math.round(value).toLocaleString("en-US");
  return Number(value.toPrecision(4)).toLocaleString("en-US", { maximumFractionDigits: 6 });
}

/** A size in memory; nothing where it is not known. */
export function bytes(value: number | null): string {
  if (value === null) return "";
  return value < 1e9 ? `${figure(Math.round(value / 1e6))} MB` : `${figure(Number((value / 1e9).toPrecision(3)))} GB`;
}

function isMemory(metric: string | null | undefined): boolean {
  return metric === "peak_resident_bytes" || metric === "peak_allocator_bytes";
}

/** Whether an increase of a judged metric is worse. */
export function lowerIsBetter(metric: string | null | undefined): boolean {
  return metric === "joules_per_unit" || isMemory(metric);
}

const UNITS: Record<string, string> = {
  tokens_per_s_per_device: "tokens/s/device",
  tflops_per_device: "TFLOP/s/device",
  mfu: "MFU",
  training: "loss",
};

/** A judged value with its unit. */
export function judged(value: number, metric: string | null, unit: string | null): string {
  const work = unit ?? "units";
  if (isMemory(metric)) return bytes(value);
  if (metric === "joules_per_unit") return `${figure(value)} J/${work.replace(/s$/, "")}`;
  return `${figure(value)} ${UNITS[metric ?? ""] ?? `${work}/s`}`;
}

export function percent(value: number | null | undefined, digits = 1): string {
  if (value === null || value === undefined) return "–";
  const text = Math.abs(100 * value).toFixed(digits);
  return `${value < 0 && Number(text) !== 0 ? "−" : ""}${text} %`;
}

/** A relative change with its sign. */
export function change(value: number): string {
  const text = Math.abs(100 * value).toFixed(1);
  return `${Number(text) === 0 ? "" : value < 0 ? "−" : "+"}${text} %`;
}

export function interval(low: number | null, high: number | null): string {
  return low === null || high === null ? "" : `${change(low)} to ${change(high)}`;
}

export function words(name: string): string {
  return name.replaceAll("_", " ");
}

/** Version of a framework and of the Python that ran it. */
export function version(of: { framework_version: string | null; python: string | null }): string {
  return [of.framework_version, of.python && `Python ${of.python}`].filter(Boolean).join(", ") || "–";
}

/** Date and time in UTC. */
export function moment(at: string | number): string {
  return new Date(at).toISOString().slice(0, 16).replace("T", " ");
}

export function day(at: string | number): string {
  return new Date(at).toISOString().slice(0, 10);
}

export function ago(at: string, now: string | number = Date.now()): string {
  const minutes = Math.max(0, (new Date(now).getTime() - new Date(at).getTime()) / MINUTE);
  for (const [unit, length] of [["day", 1440], ["hour", 60], ["minute", 1]] as const) {
    const number = Math.floor(minutes / length);
    if (number) return `${number} ${unit}${number > 1 ? "s" : ""} ago`;
  }
  return "just now";
}

export function count(number: number, one: string, many = `${one}s`): string {
  return `${number} ${number === 1 ? one : many}`;
}
