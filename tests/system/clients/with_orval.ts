// Call every operation with a client that orval generated, over axios.
// Print what arrived as one JSON object. A member that the types lack does not compile.

import axios, { type AxiosResponse } from "axios";
import { DomainStatus, getVerifyd, type Problem } from "./verifyd";

const api = getVerifyd();
const day = "2026-12-31";
const unusedDay = "2020-12-31";
const until = "2099-12-31";
const edit = { add: [{ registration: "so15 rnn" }, { registration: "?" }], remove: ["LP63SED"] };
const wanted = { leadDays: [14, 28], reference: "FLEET", until };
const plates = ["AB12CDE", "lp63 sed", "ZZ99ZZZ", "?"];

function useKey(key: string) {
  axios.defaults.headers.common["X-API-Key"] = key;
}

function known<T>(value: T | null | undefined): T {
  if (value === null || value === undefined) throw new Error("a value is missing");
  return value;
}

async function refusal(call: Promise<unknown>): Promise<AxiosResponse<Problem>> {
  const error = await call.catch((thrown: unknown) => thrown);
  if (!axios.isAxiosError<Problem>(error)) throw error;
  const answer = known(error.response);
  if (answer.data.status !== answer.status) throw new Error("the status differs");
  return answer;
}

async function refused(call: Promise<unknown>): Promise<[number, string]> {
  const { status, code } = (await refusal(call)).data;
  return [status, code];
}

async function callDomains(name: string) {
  const created = (await api.createDomain({ name })).data;
  const page = (await api.listDomains({ limit: 1, status: DomainStatus.active })).data;
  const rest = (await api.listDomains({ after: known(page.next) })).data;
  const found = (await api.getDomain(name)).data;
  return {
    created: [created.name, created.status, new Date(created.created_at).getUTCFullYear()],
    domains: [...page.domains, ...rest.domains].map((domain) => domain.name),
    domain: found.id === created.id,
    duplicate: await refused(api.createDomain({ name })),
    deleted: (await api.deleteDomain(name)).status,
    gone: await refused(api.deleteDomain(name)),
    missing: await refused(api.getDomain("missing.example.com")),
  };
}

async function callVehicles() {
  const insured = (await api.checkVehicleInsurance("AB12CDE")).data;
  const policy = known(insured.policy);
  const explained = (await api.checkCompliance("SO15RNN", { explain: true })).data;
  const bulk = (await api.checkVehicles({ registrations: plates })).data;
  const onDay = (await api.checkVehicleInsurance("AB12CDE", { asOf: day })).data;
  return {
    insured: [insured.insured, policy.number, policy.validFrom],
    day: known(onDay.asOf),
    unknown: await refused(api.checkVehicleInsurance("ZZ99ZZZ", { asOf: day })),
    malformed: await refused(api.checkCompliance("ABCDEFGHIJKLMN")),
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
  const one = { registrations: plates.slice(0, 1), asOf: day, details: true };
  const detailed = (await api.checkVehicles(one)).data;
  const many = { registrations: plates, explain: true };
  const checked = (await api.checkVehiclesCompliance(many)).data;
  const account = (await api.getAccount()).data;
  const usage = (await api.getUsage({ from: unusedDay, to: unusedDay })).data;
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
  const watch = (await api.putWatch("AB12CDE", wanted)).data;
  const found = (await api.getWatch("ab12 cde")).data;
  const changed = (await api.changeWatches(edit)).data;
  const page = (await api.listWatches({ limit: 1 })).data;
  const rest = (await api.listWatches({ after: known(page.next) })).data;
  const events = (await api.listEvents({ limit: 1 })).data;
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
    old_events: await refused(api.listEvents({ after: "00000000-1" })),
    unwatched: [
      (await api.deleteWatch("AB12CDE")).status,
      (await api.deleteWatch("SO15RNN")).status,
    ],
    no_watch: await refused(api.getWatch("AB12CDE")),
  };
}

async function callOperations() {
  const start = (await api.getStartPage()).data;
  return {
    health: (await api.getHealth()).data.status,
    ready: (await api.getReadiness()).data.status,
    document: (await api.getOpenApiDocument()).data.openapi,
    metrics: (await api.getMetrics()).data.includes("verifyd_"),
    start: typeof start === "object" ? start.name : start,
    pages: [
      (await api.getDocumentationPage()).data,
      (await api.getErrorsPage()).data,
      (await api.getTryPage()).data,
    ].map((page) => page.includes("<!DOCTYPE html>")),
  };
}

async function callWithOtherKeys() {
  useKey(process.env.HURRIED_KEY!);
  await api.listDomains();
  const limited = await refusal(api.listDomains());
  useKey("nobody");
  return {
    stranger: await refused(api.listDomains()),
    limited: [limited.data.status, limited.data.code],
    waits: Number(limited.headers["retry-after"]) > 0,
  };
}

axios.defaults.baseURL = process.env.SERVICE_URL;
useKey(process.env.KEY!);
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
