import { verdict } from "./verifyd.ts";
import { TypedClient } from "./verifyd_typed.ts";

const client = new TypedClient();
const record = await client.checkVehicleInsurance("AB12CDE", { asOf: "2026-12-31" });
if (record.policy) {
  console.log(record.registration, record.policy.number, verdict(record, "insured"));
}
const answer = await client.checkVehicles({ registrations: ["AB12CDE", "ZZ99ZZZ"] });
console.log(answer.successful, answer.failed);
