import { Client, Problem, verdict } from "./verifyd.ts";

const client = new Client();
try {
  const answer = await client.ask("GET", "/v1/vehicle/ZZ99ZZZ/insurance");
  console.log(verdict(answer, "insured"));
} catch (error) {
  const isProblem = error instanceof Problem;
  if (!isProblem || error.code !== "vehicle_not_found") throw error;
  console.log("no register knows this vehicle");
}
