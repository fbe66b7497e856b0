// What @hey-api/openapi-ts generates; node needs the extensions of imports.

export default {
  input: "openapi.json",
  output: { path: "client", module: { extension: ".js" } },
  plugins: ["@hey-api/client-fetch", "@hey-api/typescript", "@hey-api/sdk"],
};
