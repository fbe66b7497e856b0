// A small client of verifyd, for Node 20 or newer.

const url = "http://127.0.0.1:8000";
const transient = [429, 500, 502, 503, 504];

/** An error of the service. Decide by `code`. */
export class Problem extends Error {
  code: string;

  constructor(body: { code: string; detail: string }) {
    super(`${body.code}: ${body.detail}`);
    this.code = body.code;
  }
}

/** Sends a request and returns its answer; undefined if the answer is empty. */
export async function ask(method: string, path: string, body?: object): Promise<any> {
  const headers = { "X-API-Key": process.env.KEY!, "Content-Type": "application/json" };
  for (let repeated = 0; ; repeated++) {
    const answer = await fetch(url + path, {
      method,
      headers,
      body: body && JSON.stringify(body),
      signal: AbortSignal.timeout(30_000),
    });
    if (answer.status === 204) return undefined;
    if (answer.ok) return answer.json();
    const problem = new Problem(await answer.json());
    if (!transient.includes(answer.status) || repeated === 5) throw problem;
    // Without Retry-After it waits 1, 2, 4, 8 ... seconds.
    const seconds = Number(answer.headers.get("Retry-After") ?? 2 ** repeated);
    await new Promise((resolve) => setTimeout(resolve, 1000 * seconds));
  }
}
