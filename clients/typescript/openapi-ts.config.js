// `openapi.json` is what a running service answers at /openapi.json.
export default {
  input: './openapi.json',
  output: { path: './src/generated', module: { extension: '.js' } },
  plugins: ['@hey-api/client-fetch', '@hey-api/typescript', '@hey-api/sdk'],
};
