// `npm run generate` writes `openapi.json` with the installed Fieldmark; a running service returns the same at /openapi.json.
export default {
  input: './openapi.json',
  output: { path: './src/generated', module: { extension: '.js' } },
  plugins: ['@hey-api/client-fetch', '@hey-api/typescript', '@hey-api/sdk'],
};
