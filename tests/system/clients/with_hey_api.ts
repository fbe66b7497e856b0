// Call every operation with a client that @hey-api/openapi-ts generated.
// Print what arrived as one JSON object. A member that the types lack does not compile.
// The address of the service is the one in the document.

import * as api from "./verifyd";
import { createClient, createConfig } from "./verifyd/client";
import { client as generated } from "./verifyd/client.gen";

const day = "2026-12-31";
const unusedDay = "2020-12-31";
const until = "2099-12-31";
const edit = { add: [{ registration: "so15 rnn" }, { registration: "?" }], remove: ["LP63SED"] };
const wanted = { leadDays: [14, 28], reference: "FLEET", until };
const plates = ["AB12CDE", "lp63 sed", "ZZ99ZZZ", "?"];

function clientWith(key?: string) {
  const { baseUrl } = generated.getConfig();
  const client = createClient(createConfig({ baseUrl }));
  client.setConfig({ auth: key });
  return client;
}

function known<T>(value: T | null | undefined): T {
  if (value === null || value === undefined) throw new Error("a value is missing");
  return value;
}

function refused(answer: { error?: api.Problem; response?: Response }): [number, string] {
  const problem = known(answer.error);
  if (problem.status !== known(answer.response).status) throw new Error("the status differs");
  return [problem.status, problem.code];
}

async function callDomains(name: string) {
  const client = clientWith(process.env.KEY);
  const create = () => api.createDomain({ client, body: { name } });
  const created = known((await create()).data);
  const first = { limit: 1, status: "active" } as const;
  const page = known((await api.listDomains({ client, query: first })).data);
  const following = { after: known(page.next) };
  const rest = known((await api.listDomains({ client, query: following })).data);
  const one = { client, path: { domain: name } };
  const found = known((await api.getDomain(one)).data);
  const missing = { client, path: { domain: "missing.example.com" } };
  return {
    created: [created.name, created.status, new Date(created.created_at).getUTCFullYear()],
    domains: [...page.domains, ...rest.domains].map((domain) => domain.name),
    domain: found.id === created.id,
    duplicate: refused(await create()),
    deleted: known((await api.deleteDomain(one)).response).status,
    gone: refused(await api.deleteDomain(one)),
    missing: refused(await api.getDomain(missing)),
  };
}

async function callVehicles() {
  const client = clientWith(process.env.KEY);
  const insurance = (registration: string, asOf?: string) =>
    api.checkVehicleInsurance({ client, path: { registration }, query: { asOf } });
  const insured = known((await insurance("AB12CDE")).data);
  const policy = known(insured.policy);
  const compliance = (registration: string) =>
    api.checkCompliance({ client, path: { registration }, query: { explain: true } });
  const explained = known((await compliance("SO15RNN")).data);
  const bulk = known((await api.checkVehicles({ client, body: { registrations: plates } })).data);
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
  const client = clientWith(process.env.KEY);
  const one = { registrations: plates.slice(0, 1), asOf: day, details: true };
  const detailed = known((await api.checkVehicles({ client, body: one })).data);
  const many = { registrations: plates, explain: true };
  const checked = known((await api.checkVehiclesCompliance({ client, body: many })).data);
  const account = known((await api.getAccount({ client })).data);
  const days = { from: unusedDay, to: unusedDay };
  const usage = known((await api.getUsage({ client, query: days })).data);
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
  const client = clientWith(process.env.KEY);
  const of = (registration: string) => ({ client, path: { registration } });
  const watch = known((await api.putWatch({ ...of("AB12CDE"), body: wanted })).data);
  const found = known((await api.getWatch(of("ab12 cde"))).data);
  const changed = known((await api.changeWatches({ client, body: edit })).data);
  const page = known((await api.listWatches({ client, query: { limit: 1 } })).data);
  const following = { after: known(page.next) };
  const rest = known((await api.listWatches({ client, query: following })).data);
  const events = known((await api.listEvents({ client, query: { limit: 1 } })).data);
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
    old_events: refused(await api.listEvents({ client, query: { after: "00000000-1" } })),
    unwatched: [
      known((await api.deleteWatch(of("AB12CDE"))).response).status,
      known((await api.deleteWatch(of("SO15RNN"))).response).status,
    ],
    no_watch: refused(await api.getWatch(of("AB12CDE"))),
  };
}

async function callOperations() {
  const client = clientWith();
  const start = known((await api.getStartPage({ client })).data);
  return {
    health: known((await api.getHealth({ client })).data).status,
    ready: known((await api.getReadiness({ client })).data).status,
    document: known((await api.getOpenApiDocument({ client })).data).openapi,
    metrics: known((await api.getMetrics({ client })).data).includes("verifyd_"),
    start: typeof start === "object" ? start.name : start,
    pages: [
      known((await api.getDocumentationPage({ client })).data),
      known((await api.getErrorsPage({ client })).data),
      known((await api.getTryPage({ client })).data),
    ].map((page) => page.includes("<!DOCTYPE html>")),
  };
}

async function callWithOtherKeys() {
  const hurried = clientWith(process.env.HURRIED_KEY);
  await api.listDomains({ client: hurried });
  const limited = await api.listDomains({ client: hurried });
  return {
    stranger: refused(await api.listDomains({ client: clientWith("nobody") })),
    limited: refused(limited),
    waits: Number(known(limited.response).headers.get("Retry-After")) > 0,
  };
}

console.log(
  JSON.stringify({
    ...(await callDomains(known(process.env.DOMAIN))),
    ...(await callVehicles()),
    ...(await callNewOnes()),
    ...(await callWatches()),
    ...(await callOperations()),
    ...(await callWithOtherKeys()),
  }),
);
