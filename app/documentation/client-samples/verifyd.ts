/**
 * A small client of verifyd for Node 22.18 or newer. It needs no package.
 *
 *     import { Client, verdict } from "./verifyd.ts";
 *
 *     const client = new Client(); // with the key in the environment variable KEY
 *     const answer = await client.ask("GET", "/v1/vehicle/AB12CDE/insurance");
 *     console.log(verdict(answer, "insured")); // null if no register knows it
 *
 * After 429, 503 and a refused connection, a request is sent again. After 500, 502, 504,
 * `database_unavailable`, a time-out and a broken connection the service may have done it: then all
 * but creating a domain is sent again. `{ repeat: true }` repeats that, too; then
 * `domain_already_exists` is a success. It waits `Retry-After` seconds and a random 0.25 to 0.5,
 * which double with each try, up to 8. It gives up after `tries` tries, or if the next would begin
 * more than `patience` seconds after the first. It follows no redirects: they could get the key.
 */

export const SERVICE = "http://127.0.0.1:8000";
export const INSURANCE = "/v1/vehicle/bulk-insurance";
export const COMPLIANCE = "/v1/compliance/bulk";
const BROKEN = /^(ECONN|EPIPE|ETIMEDOUT|HPE_|UND_ERR_(SOCKET|CONNECT|RES))/;
const sleep = (seconds: number) => new Promise((done) => setTimeout(done, 1000 * seconds));
/** A request that failed. Decide by `code`; `detail` is for people. */
export class Problem extends Error {
  /** That of the service; `no_answer` without one, or `unexpected_answer` from a proxy. */
  code: string;
  detail: string;
  /** The HTTP status; undefined without an answer. */
  status?: number;
  /** What to quote when you ask the operator. */
  requestId?: string;
  /** What is wrong in the body. */
  errors: { pointer: string; detail: string }[] = [];
  /** Known vehicles that look alike, with `vehicle_not_found`. */
  suggestions: any[] = [];
  /** The seconds that the answer asks to wait, or 0. */
  retryAfter = 0;
  /** Whether the same request may succeed later. */
  isTemporary: boolean;
  /** Whether the service may have done what the request says. */
  maybeDone: boolean;

  constructor(code: string, detail: string, status = 0) {
    super(`${code}: ${detail}`);
    this.code = code;
    this.detail = detail;
    this.status = status || undefined;
    this.isTemporary = [429, 500, 502, 503, 504].includes(status);
    const isRefusal = (status >= 400 && status < 500) || status === 503;
    this.maybeDone = !isRefusal || code === "database_unavailable";
  }
}

/**
 * Returns what an answer, an item or a period says; null if no register knows it.
 *
 * Names are such as `insured`, `compliant`, `motValid` and `validThroughout`. An item with `error`
 * says nothing, and neither does an answer without this member.
 */
export function verdict(answer: any, name: string): boolean | null {
  if (answer.unknown?.includes(name) || "error" in answer) return null;
  return answer[name] ?? answer.checks?.[name] ?? null;
}

export interface Options {
  /** By default the environment variable `KEY`. */
  key?: string;
  url?: string;
  /** Sent with every request, such as `Enquiry-Reason`. */
  headers?: Record<string, string>;
  /** The seconds after which a try fails. */
  timeout?: number;
  /** How many times a request is sent at most. */
  tries?: number;
  /** The seconds after the first try within which the last one begins. */
  patience?: number;
}

/** Sends requests with one key. */
export class Client {
  #url: string;
  #headers: Record<string, string>;
  #timeout: number;
  #tries: number;
  #patience: number;

  constructor(options: Options = {}) {
    const key = (options.key ?? process.env.KEY ?? "").trim();
    if (!key) throw new Error("KEY is not set. Run: export KEY=vfd_...");
    this.#url = (options.url ?? SERVICE).replace(/\/+$/, "");
    this.#headers = { "X-API-Key": key, "Content-Type": "application/json", ...options.headers };
    this.#timeout = 1000 * (options.timeout ?? 30);
    this.#tries = options.tries ?? 6;
    this.#patience = 1000 * (options.patience ?? 60);
  }

  /**
   * Returns the answer, or undefined if it is empty; throws Problem if the request failed.
   *
   * The path has the query, such as `/api/domains?limit=10`. The body is sent as JSON. `repeat`
   * sends again what may have been done; that is the default, except to create a domain.
   */
  async ask<T = any>(
    method: string,
    path: string,
    body?: object,
    { repeat = method !== "POST" || path !== "/api/domains" } = {},
  ): Promise<T> {
    const lastStart = performance.now() + this.#patience;
    for (let number = 1; ; number++) {
      try {
        return await this.#send(method, path, body && JSON.stringify(body));
      } catch (problem) {
        if (!(problem instanceof Problem)) throw problem;
        const pause = problem.retryAfter + Math.min(8, 2 ** number / 4) * (0.5 + Math.random() / 2);
        const isOver = number >= this.#tries || performance.now() + 1000 * pause > lastStart;
        if (isOver || !problem.isTemporary || (problem.maybeDone && !repeat)) throw problem;
        await sleep(pause);
      }
    }
  }

  /** Yields the domains of the account by name, in lists of at most `limit`. */
  async *pages(limit = 100, status?: "active" | "suspended"): AsyncGenerator<any[]> {
    const query = new URLSearchParams({ limit: String(limit), ...(status && { status }) });
    for (;;) {
      const page = await this.ask("GET", `/api/domains?${query}`);
      yield page.domains;
      if (page.next === null) return;
      query.set("after", page.next);
    }
  }

  /**
   * Yields an item for each plate, in the same order, from as many requests as it takes.
   *
   * The path is `INSURANCE` or `COMPLIANCE`; members are such as `{ asOf: "2026-12-31" }`.
   */
  async *checkAll(plates: string[], path = INSURANCE, members = {}): AsyncGenerator<any> {
    const { bulkMax } = (await this.ask("GET", "/v1/account")).plan;
    for (let start = 0; start < plates.length; start += bulkMax) {
      const registrations = plates.slice(start, start + bulkMax);
      yield* (await this.ask("POST", path, { registrations, ...members })).results;
    }
  }

  /**
   * Yields the events of the account's watches for ever: those after an event, then new ones.
   *
   * Keep the `id` of the event that you handled last, and begin with it next time. The client asks
   * again after the next sweep, or after `pause` seconds, and a little later.
   */
  async *events(after?: string | null, pause = 600): AsyncGenerator<any> {
    for (;;) {
      const page = await this.ask("GET", `/v1/events${after ? `?after=${after}` : ""}`);
      yield* page.events;
      after = page.next;
      if (page.hasMore) continue;
      const left = (Date.parse(page.nextSweep) - Date.now()) / 1000;
      await sleep(Math.min(pause, Math.max(0, left)) + pause * (0.05 + Math.random() / 10));
    }
  }

  async #send(method: string, path: string, body?: string) {
    const signal = AbortSignal.timeout(this.#timeout);
    const request = { method, headers: this.#headers, body, redirect: "manual", signal } as const;
    try {
      const answer = await fetch(this.#url + path, request);
      return valueOf(answer, await answer.text());
    } catch (error: any) {
      if (error instanceof Problem) throw error;
      const reason = error.cause ?? error;
      const problem = new Problem("no_answer", `${reason.code ?? reason.name}: ${reason.message}`);
      problem.cause = error;
      problem.isTemporary = reason.name === "TimeoutError" || BROKEN.test(reason.code);
      problem.maybeDone = reason.code !== "ECONNREFUSED";
      throw problem;
    }
  }
}

/** Returns the value of an answer; throws Problem if it is none. */
function valueOf({ status, headers }: Response, body: string): any {
  const said = objectIn(body);
  if (status === 204 || ((status === 200 || status === 201) && said)) return said;
  const seen = `status ${status}, ${headers.get("Content-Type")}, ${JSON.stringify(body.slice(0, 100))}`;
  const isOurs = status >= 400 && typeof said?.code === "string";
  const [code, detail] = isOurs ? [said.code, said.detail] : ["unexpected_answer", seen];
  const problem = new Problem(code, detail, status);
  if (isOurs) ({ errors: problem.errors = [], suggestions: problem.suggestions = [] } = said);
  problem.requestId = said?.request_id ?? headers.get("X-Request-ID") ?? undefined;
  problem.retryAfter = secondsToWait(headers);
  throw problem;
}

/** Returns the JSON object in a body; undefined if it is something else. */
function objectIn(body: string): any {
  try {
    const value = JSON.parse(body);
    return value?.constructor === Object ? value : undefined;
  } catch {} // not JSON
}

/** Returns the seconds that `Retry-After` names, as a number or a date; otherwise 0. */
function secondsToWait(headers: Headers): number {
  const told = headers.get("Retry-After") ?? "";
  if (/^\d+$/.test(told)) return Number(told);
  if (!told.endsWith("GMT")) return 0;
  // By the clock of the service, because this machine's may be wrong.
  const now = Date.parse(headers.get("Date") ?? new Date().toUTCString());
  return Math.max(0, (Date.parse(told) - now) / 1000 || 0);
}
