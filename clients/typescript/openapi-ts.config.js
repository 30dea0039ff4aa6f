// `openapi.json` is what a running service answers at /openapi.json.
export default {
  input: './openapi.json',
  output: './src/generated',
  plugins: ['@hey-api/client-fetch', '@hey-api/typescript', '@hey-api/sdk'],
};
