// Import an OpenAPI document into Postman and into Bruno; print the base URL that each one uses.

import { readFileSync } from "node:fs";
import bruno from "@usebruno/converters";
import postman from "openapi-to-postmanv2";

const document = readFileSync(process.argv[2], "utf8");

function importedByPostman() {
  return new Promise((resolve, reject) => {
    const input = { type: "string", data: document };
    postman.convertV2(input, {}, (error, result) => {
      if (error || !result.result) reject(error ?? new Error(result.reason));
      else resolve(result.output[0].data);
    });
  });
}

const collection = await importedByPostman();
const postmanUrl = collection.variable.find(({ key }) => key === "baseUrl").value;

const imported = bruno.openApiToBruno(JSON.parse(document));
const [environment] = imported.environments;
const brunoUrl = environment.variables.find(({ name }) => name === "baseUrl").value;

console.log(JSON.stringify({ postman: postmanUrl, bruno: brunoUrl }));
