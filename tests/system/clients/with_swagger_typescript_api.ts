// Call every operation with a client that swagger-typescript-api generated.
// Print what arrived as one JSON object. A member that the types lack does not compile.

import { Api, DomainStatus, type HttpResponse, type Problem } from "./verifyd";

const baseUrl = process.env.SERVICE_URL!;
const day = "2026-12-31";
const unusedDay = "2020-12-31";
const until = "2099-12-31";
const edit = { add: [{ registration: "so15 rnn" }, { registration: "?" }], remove: ["LP63SED"] };
const wanted = { leadDays: [14, 28], reference: "FLEET", until };
const plates = ["AB12CDE", "lp63 sed", "ZZ99ZZZ", "?"];

function clientWith(key: string) {
  return new Api({ baseUrl, baseApiParams: { headers: { "X-API-Key": key } } });
}

function known<T>(value: T | null | undefined): T {
  if (value === null || value === undefined) throw new Error("a value is missing");
  return value;
}

type Refusal = HttpResponse<unknown, Problem>;

async function refusal(call: Promise<Refusal>): Promise<Refusal> {
  const answer = await call.catch((error: Refusal) => error);
  if (answer.error.status !== answer.status) throw new Error("the status differs");
  return answer;
}

async function refused(call: Promise<Refusal>): Promise<[number, string]> {
  const { status, code } = (await refusal(call)).error;
  return [status, code];
}

async function callDomains(name: string) {
  const { api } = clientWith(process.env.KEY!);
  const created = (await api.createDomain({ name })).data;
  const page = (await api.listDomains({ limit: 1, status: DomainStatus.Active })).data;
  const rest = (await api.listDomains({ after: known(page.next) })).data;
  const found = (await api.getDomain(name)).data;
  return {
    created: [created.name, created.status, new Date(created.created_at).getUTCFullYear()],
    domains: [...page.domains, ...rest.domains].map((domain) => domain.name),
    domain: found.id === created.id,
    duplicate: await refused(api.createDomain({ name })),
    deleted: (await api.deleteDomain(name)).status,
    gone: await refused(api.deleteDomain(name, { format: "json" })),
    missing: await refused(api.getDomain("missing.example.com")),
  };
}

async function callVehicles() {
  const { v1 } = clientWith(process.env.KEY!);
  const insured = (await v1.checkVehicleInsurance("AB12CDE")).data;
  const policy = known(insured.policy);
  const explained = (await v1.checkCompliance("SO15RNN", { explain: true })).data;
  const bulk = (await v1.checkVehicles({ registrations: plates })).data;
  const onDay = (await v1.checkVehicleInsurance("AB12CDE", { asOf: day })).data;
  return {
    insured: [insured.insured, policy.number, policy.validFrom],
    day: known(onDay.asOf),
    unknown: await refused(v1.checkVehicleInsurance("ZZ99ZZZ", { asOf: day })),
    malformed: await refused(v1.checkCompliance("ABCDEFGHIJKLMN")),
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
  const { v1 } = clientWith(process.env.KEY!);
  const one = { registrations: plates.slice(0, 1), asOf: day, details: true };
  const detailed = (await v1.checkVehicles(one)).data;
  const many = { registrations: plates, explain: true };
  const checked = (await v1.checkVehiclesCompliance(many)).data;
  const account = (await v1.getAccount()).data;
  const usage = (await v1.getUsage({ from: unusedDay, to: unusedDay })).data;
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
  const { v1 } = clientWith(process.env.KEY!);
  const watch = (await v1.putWatch("AB12CDE", wanted)).data;
  const found = (await v1.getWatch("ab12 cde")).data;
  const changed = (await v1.changeWatches(edit)).data;
  const page = (await v1.listWatches({ limit: 1 })).data;
  const rest = (await v1.listWatches({ after: known(page.next) })).data;
  const events = (await v1.listEvents({ limit: 1 })).data;
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
    old_events: await refused(v1.listEvents({ after: "00000000-1" })),
    unwatched: [
      (await v1.deleteWatch("AB12CDE")).status,
      (await v1.deleteWatch("SO15RNN")).status,
    ],
    no_watch: await refused(v1.getWatch("AB12CDE")),
  };
}

async function callOperations() {
  const client = new Api({ baseUrl });
  const page = async (answer: Promise<Response>) => (await answer).text();
  return {
    health: (await client.healthz.getHealth()).data.status,
    ready: (await client.readyz.getReadiness()).data.status,
    document: (await client.openapiJson.getOpenApiDocument()).data.openapi,
    metrics: (await page(client.metrics.getMetrics())).includes("verifyd_"),
    start: (await client.getStartPage()).data.name,
    pages: [
      await page(client.docs.getDocumentationPage()),
      await page(client.docs.getErrorsPage()),
      await page(client.docs.getTryPage()),
    ].map((text) => text.includes("<!DOCTYPE html>")),
  };
}

async function callWithOtherKeys() {
  const { api } = clientWith(process.env.HURRIED_KEY!);
  await api.listDomains();
  const limited = await refusal(api.listDomains());
  return {
    stranger: await refused(clientWith("nobody").api.listDomains()),
    limited: [limited.error.status, limited.error.code],
    waits: Number(limited.headers.get("Retry-After")) > 0,
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
