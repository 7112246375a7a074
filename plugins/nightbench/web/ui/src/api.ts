// Reads the JSON API. The browser is logged in by Airflow's cookie, so nothing is sent beside.
import { useEffect, useState } from "react";

export type Query = Record<string, string | number | undefined>;

export class ApiError extends Error {
  constructor(
    readonly status: number,
    message: string,
  ) {
    super(message);
  }
}

/** Address below Airflow's own, which may have a path itself. */
export function address(path: string): string {
  return new URL(path, document.baseURI).href;
}

export function apiAddress(path: string, query: Query = {}): string {
  const found = new URLSearchParams();
  for (const [key, value] of Object.entries(query)) {
    if (value !== undefined && value !== "") found.set(key, String(value));
  }
  return address(`nightbench/api/${path}${found.size ? `?${found}` : ""}`);
}

export async function request<T>(url: string, init: RequestInit = {}): Promise<T> {
  const response = await fetch(url, init);
  if (response.status === 401) {
    const next = encodeURIComponent(window.location.href);
    window.location.assign(address(`api/v2/auth/login?next=${next}`));
  }
  if (!response.ok) {
    const found = (await response.json().catch(() => ({}))) as { detail?: unknown };
    const detail = typeof found.detail === "string" ? found.detail : response.statusText;
    throw new ApiError(response.status, detail);
  }
  return (await response.json()) as T;
}

type Answer<T> = { data?: T; error?: Error; isLoading: boolean };

// What was read last, shown at once when a page is opened again, while it is read anew.
const remembered = new Map<string, unknown>();
const REMEMBERED = 50;

function remember(url: string, data: unknown): void {
  remembered.delete(url);
  remembered.set(url, data);
  const [oldest] = remembered.keys();
  if (remembered.size > REMEMBERED && oldest !== undefined) remembered.delete(oldest);
}

// Requests of components that are rendered and not yet shown. Behind another fallback React shows
// what it has rendered up to 300 ms later, and runs effects only then.
const begun = new Map<string, Promise<unknown>>();
const UNSHOWN_MS = 5000;

function begin(url: string): void {
  if (!url || begun.has(url)) return;
  const answer = request<unknown>(url);
  answer.catch(() => undefined); // Told by who takes it; a component never shown tells nobody.
  begun.set(url, answer);
  setTimeout(() => begun.delete(url), UNSHOWN_MS);
}

function take<T>(url: string): Promise<T> | undefined {
  const answer = begun.get(url) as Promise<T> | undefined;
  begun.delete(url);
  return answer;
}

/** The answer of the API; `reload` changes to ask again, an empty path asks nothing. */
export function useApi<T>(path: string, query: Query = {}, reload = 0): Answer<T> {
  const url = path && apiAddress(path, query);
  const [answer, setAnswer] = useState<{ url: string; data?: T; error?: Error }>({ url: "" });
  useState(() => begin(url));
  useEffect(() => {
    if (!url) return undefined;
    const controller = new AbortController();
    (take<T>(url) ?? request<T>(url, { signal: controller.signal })).then(
      (data) => {
        remember(url, data);
        if (!controller.signal.aborted) setAnswer({ url, data });
      },
      (error: Error) => {
        if (!controller.signal.aborted) setAnswer({ url, error });
      },
    );
    return () => controller.abort();
  }, [url, reload]);
  if (!url) return { isLoading: false };
  if (answer.url === url) return { ...answer, isLoading: false };
  return { data: remembered.get(url) as T | undefined, isLoading: true };
}
