// Call every operation with openapi-fetch and the types that openapi-typescript generated.
// Print what arrived as one JSON object. A member that the types lack does not compile.

import createClient from "openapi-fetch";
import type { components, paths } from "./verifyd";

type Problem = components["schemas"]["Problem"];

const baseUrl = process.env.SERVICE_URL!;
const day = "2026-12-31";
const unusedDay = "2020-12-31";
const until = "2099-12-31";
const edit = { add: [{ registration: "so15 rnn" }, { registration: "?" }], remove: ["LP63SED"] };
const wanted = { leadDays: [14, 28], reference: "FLEET", until };
const plates = ["AB12CDE", "lp63 sed", "ZZ99ZZZ", "?"];

function clientWith(key: string) {
  return createClient<paths>({ baseUrl, headers: { "X-API-Key": key } });
}

function known<T>(value: T | null | undefined): T {
  if (value === null || value === undefined) throw new Error("a value is missing");
  return value;
}

function refused(answer: { error?: Problem; response: Response }): [number, string] {
  const problem = known(answer.error);
  if (problem.status !== answer.response.status) throw new Error("the status differs");
  return [problem.status, problem.code];
}

async function callDomains(name: string) {
  const client = clientWith(process.env.KEY!);
  const create = () => client.POST("/api/domains", { body: { name } });
  const created = known((await create()).data);
  const first = { params: { query: { limit: 1, status: "active" } } } as const;
  const page = known((await client.GET("/api/domains", first)).data);
  const following = { params: { query: { after: known(page.next) } } };
  const rest = known((await client.GET("/api/domains", following)).data);
  const one = { params: { path: { domain: name } } };
  const found = known((await client.GET("/api/domains/{domain}", one)).data);
  const missing = { params: { path: { domain: "missing.example.com" } } };
  return {
    created: [created.name, created.status, new Date(created.created_at).getUTCFullYear()],
    domains: [...page.domains, ...rest.domains].map((domain) => domain.name),
    domain: found.id === created.id,
    duplicate: refused(await create()),
    deleted: (await client.DELETE("/api/domains/{domain}", one)).response.status,
    gone: refused(await client.DELETE("/api/domains/{domain}", one)),
    missing: refused(await client.GET("/api/domains/{domain}", missing)),
  };
}

async function callVehicles() {
  const client = clientWith(process.env.KEY!);
  const insurance = (registration: string, asOf?: string) =>
    client.GET("/v1/vehicle/{registration}/insurance", {
      params: { path: { registration }, query: { asOf } },
    });
  const insured = known((await insurance("AB12CDE")).data);
  const policy = known(insured.policy);
  const compliance = (registration: string) =>
    client.GET("/v1/compliance/{registration}", {
      params: { path: { registration }, query: { explain: true } },
    });
  const explained = known((await compliance("SO15RNN")).data);
  const body = { registrations: plates };
  const bulk = known((await client.POST("/v1/vehicle/bulk-insurance", { body })).data);
  return {
    insured: [insured.insured, policy.number, policy.validFrom],
    day: known(known((await insurance("AB12CDE", day)).data).asOf),
    unknown: refused(await insurance("ZZ99ZZZ", day)),
    malformed: refused(await compliance("ABCDEFGHIJKLMN")),
    compliance: [
      explained.compliant,
      explained.checks.roadTaxPaid,
      known(explained.reasons).roadTaxPaid,
    ],
    bulk: bulk.results.map((item) =>
      item.policy
        ? [item.registration, item.insured, item.policy.number]
        : [item.registration, item.insured, known(item.code)],
    ),
    counts: [bulk.processed, bulk.successful, bulk.failed],
  };
}

async function callNewOnes() {
  const client = clientWith(process.env.KEY!);
  const one = { registrations: plates.slice(0, 1), asOf: day, details: true };
  const detailed = known((await client.POST("/v1/vehicle/bulk-insurance", { body: one })).data);
  const many = { registrations: plates, explain: true };
  const checked = known((await client.POST("/v1/compliance/bulk", { body: many })).data);
  const account = known((await client.GET("/v1/account")).data);
  const days = { params: { query: { from: unusedDay, to: unusedDay } } };
  const usage = known((await client.GET("/v1/usage", days)).data);
  return {
    detailed: known(known(detailed.results[0]).vehicle).make,
    bulk_compliance: checked.results.map((item) =>
      item.checks
        ? [item.registration, item.compliant, item.checks.motValid]
        : [item.registration, item.compliant, known(item.code)],
    ),
    account: [account.name, account.plan.bulkMax, account.key.label, account.key.expiresAt],
    usage: [usage.firstDay, usage.usage.map((each) => each.operation)],
  };
}

async function callWatches() {
  const client = clientWith(process.env.KEY!);
  const of = (registration: string) => ({ params: { path: { registration } } });
  const path = "/v1/watches/{registration}";
  const watch = known((await client.PUT(path, { ...of("AB12CDE"), body: wanted })).data);
  const found = known((await client.GET(path, of("ab12 cde"))).data);
  const changed = known((await client.POST("/v1/watches/bulk", { body: edit })).data);
  const first = { params: { query: { limit: 1 } } };
  const page = known((await client.GET("/v1/watches", first)).data);
  const following = { params: { query: { after: known(page.next) } } };
  const rest = known((await client.GET("/v1/watches", following)).data);
  const events = known((await client.GET("/v1/events", first)).data);
  const old = { params: { query: { after: "00000000-1" } } };
  return {
    watch: [
      watch.registration,
      watch.leadDays,
      watch.until,
      watch.known,
      known(watch.checks).mot.valid,
    ],
    reference: found.reference,
    changed: changed.results.map((item) => [item.registration, item.code ?? item.status]),
    watches: [...page.watches, ...rest.watches].map((each) => each.registration),
    events: [events.hasMore, events.next !== null],
    old_events: refused(await client.GET("/v1/events", old)),
    unwatched: [
      (await client.DELETE(path, of("AB12CDE"))).response.status,
      (await client.DELETE(path, of("SO15RNN"))).response.status,
    ],
    no_watch: refused(await client.GET(path, of("AB12CDE"))),
  };
}

async function callOperations() {
  const client = createClient<paths>({ baseUrl });
  const text = { parseAs: "text" } as const;
  const start = known((await client.GET("/")).data);
  return {
    health: known((await client.GET("/healthz")).data).status,
    ready: known((await client.GET("/readyz")).data).status,
    document: known((await client.GET("/openapi.json")).data).openapi,
    metrics: known((await client.GET("/metrics", text)).data).includes("verifyd_"),
    start: typeof start === "object" ? start.name : start,
    pages: [
      known((await client.GET("/docs", text)).data),
      known((await client.GET("/docs/errors", text)).data),
      known((await client.GET("/docs/try", text)).data),
    ].map((page) => page.includes("<!DOCTYPE html>")),
  };
}

async function callWithOtherKeys() {
  const hurried = clientWith(process.env.HURRIED_KEY!);
  await hurried.GET("/api/domains");
  const limited = await hurried.GET("/api/domains");
  return {
    stranger: refused(await clientWith("nobody").GET("/api/domains")),
    limited: refused(limited),
    waits: Number(limited.response.headers.get("Retry-After")) > 0,
  };
}

console.log(
  JSON.stringify({
    ...(await callDomains(process.env.DOMAIN!)),
    ...(await callVehicles()),
    ...(await callNewOnes()),
    ...(await callWatches()),
    ...(await callOperations()),
    ...(await callWithOtherKeys()),
  }),
);
