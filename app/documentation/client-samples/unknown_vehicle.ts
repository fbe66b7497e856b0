import { Client, Problem } from "./verifyd.ts";

const client = new Client();
try {
  console.log(await client.ask("GET", "/v1/vehicle/ZZ99ZZZ/insurance"));
} catch (error) {
  const isProblem = error instanceof Problem;
  if (!isProblem || error.code !== "vehicle_not_found") throw error;
  console.log("no register knows this vehicle");
}
