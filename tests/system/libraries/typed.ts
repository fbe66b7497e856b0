// Call every operation with the typed client; print what each gave.

import { TypedClient } from "./verifyd_typed.ts";

const client = new TypedClient({ headers: { "Enquiry-Reference": "CASE-1" } });
const created = await client.createDomain({ name: "typed.example" });
const page = await client.listDomains({ limit: 1, after: "t.example", status: "active" });
const record = await client.checkVehicleInsurance("ab12 cde", { asOf: "2026-12-31", policies: "all" });
const many = await client.checkVehicles({
  registrations: ["AB12CDE", "?"],
  from: "2026-12-01",
  to: "2026-12-31",
  details: true,
});
const compliance = await client.checkCompliance("SO15RNN", { explain: true, details: false });
const checked = await client.checkVehiclesCompliance({
  registrations: ["AB12CDE", "ZZ99ZZZ"],
  explain: true,
});
const watch = await client.putWatch("SO15RNN", { leadDays: [28, 14], until: "2099-12-31" });
const added = await client.changeWatches({ add: [{ registration: "AB12CDE", reference: "A/B" }] });
const events = await client.listEvents({ limit: 1 });
const usage = await client.getUsage({ from: "2020-01-01", to: "2020-01-31" });
const said = [
  created.status,
  page.domains.map((each) => each.name),
  (await client.getDomain("TYPED.example")).name,
  record.policies?.length,
  many.results[0]?.period?.lastDay,
  many.results[1]?.code,
  compliance.reasons?.roadTaxPaid,
  checked.results.map((each) => each.compliant),
  watch.leadDays,
  added.results.map((each) => each.status),
  (await client.listWatches({ limit: 1 })).watches.map((each) => each.registration),
  (await client.getWatch("AB12CDE")).reference,
  events.hasMore,
  (await client.getAccount()).plan.bulkMax,
  usage.usage,
  await client.deleteWatch("SO15RNN"),
  await client.deleteDomain("typed.example"),
];
console.log(JSON.stringify(said));

export function refused() {
  // @ts-expect-error no such member
  console.log(record.inshured);
  // @ts-expect-error a list is wanted
  return client.checkVehicles({ registrations: "AB12CDE" });
}
