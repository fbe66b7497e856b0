// Make the calls that standard input describes with verifyd.ts, all at once; print what each gave.

import { readFileSync } from "node:fs";
import { Client, Problem, verdict } from "./verifyd.ts";

async function valueOf(call: any): Promise<unknown> {
  const client: any = new Client({ key: "k", url: call.url, ...call.options });
  const { repeat, ...members } = call.further;
  if (call.method === "ask") {
    const [method, path, body] = call.arguments;
    return client.ask(method, path, body, repeat === undefined ? undefined : { repeat });
  }
  const found = [];
  const [first, second] = call.arguments;
  if (call.method === "verdict") return verdict(first, second);
  const methods: any = {
    pages: () => client.pages(first, second),
    check_all: () => client.checkAll(first, second, members),
    events: () => client.events(first, second),
  };
  for await (const each of methods[call.method]()) {
    found.push(each);
    if (call.method === "events" && found.length === 3) break;
  }
  return found;
}

async function outcome(call: any) {
  const start = performance.now();
  const said = await valueOf(call).then(
    (value) => ({ value: value ?? null }),
    (problem) => {
      if (!(problem instanceof Problem)) throw problem;
      return {
        code: problem.code,
        status: problem.status ?? null,
        request_id: problem.requestId ?? null,
        errors: problem.errors,
        suggestions: problem.suggestions,
        retry_after: problem.retryAfter,
        is_temporary: problem.isTemporary,
        maybe_done: problem.maybeDone,
        detail: problem.detail,
        text: problem.message,
      };
    },
  );
  return { ...said, seconds: (performance.now() - start) / 1000 };
}

const calls = Object.entries(JSON.parse(readFileSync(0, "utf8")));
const outcomes = calls.map(async ([name, call]) => [name, await outcome(call)]);
console.log(JSON.stringify(Object.fromEntries(await Promise.all(outcomes))));
