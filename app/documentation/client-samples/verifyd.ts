// A small client of verifyd, for Node 22.18 or newer.

const url = "http://127.0.0.1:8000";
const key = process.env.KEY ?? "";
if (!key) throw new Error("KEY is not set. Run: export KEY=vfd_...");
const refusedForNow = [429, 500, 502, 503, 504];

/** An error of the service. Decide by `code`. */
export class Problem extends Error {
  code: string;

  constructor(body: { code: string; detail: string }) {
    super(`${body.code}: ${body.detail}`);
    this.code = body.code;
  }
}

/** Returns the answer; undefined if it is empty. */
export async function ask(method: string, path: string, body?: object) {
  for (let attempt = 1; ; attempt++) {
    const answer = await fetch(url + path, {
      method,
      headers: { "X-API-Key": key, "Content-Type": "application/json" },
      body: body && JSON.stringify(body),
      signal: AbortSignal.timeout(30_000),
    });
    if (answer.status === 204) return undefined;
    const json: any = await answer.json();
    if (answer.ok) return json;
    if (!refusedForNow.includes(answer.status) || attempt > 5) {
      throw new Problem(json);
    }
    // Without Retry-After it waits 2, 4, 8, 16 and 32 seconds.
    const seconds = Number(answer.headers.get("Retry-After") ?? 2 ** attempt);
    await new Promise((done) => setTimeout(done, 1000 * seconds));
  }
}
