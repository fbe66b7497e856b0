import { Client, COMPLIANCE, verdict } from "./verifyd.ts";

const client = new Client();
const plates = ["AB12CDE", "SO15RNN", "ZZ99ZZZ"];
for await (const item of client.checkAll(plates)) {
  console.log(item.registration, verdict(item, "insured"));
}
for await (const item of client.checkAll(plates, COMPLIANCE, { explain: true })) {
  console.log(item.registration, verdict(item, "compliant"));
}
for await (const page of client.pages(1)) {
  console.log(page.map((domain) => domain.name));
}
