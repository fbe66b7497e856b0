import { ask, Problem } from "./verifyd.ts";

try {
  console.log(await ask("GET", "/v1/vehicle/ZZ99ZZZ/insurance"));
} catch (error) {
  const isProblem = error instanceof Problem;
  if (!isProblem || error.code !== "vehicle_not_found") throw error;
  console.log("no register knows this vehicle");
}
