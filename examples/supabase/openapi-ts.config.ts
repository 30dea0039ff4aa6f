import { loadEnv } from 'vite';

// Generates the client of clients/typescript from what the running service describes.
export default {
  input: `${loadEnv('', '.').VITE_FIELDMARK_URL}/openapi.json`,
  output: { path: '../../clients/typescript/src/generated', module: { extension: '.js' } },
  plugins: ['@hey-api/client-fetch', '@hey-api/typescript', '@hey-api/sdk'],
};
