import { fileURLToPath } from 'node:url';
import react from '@vitejs/plugin-react';
import { defineConfig } from 'vite';

const client = fileURLToPath(new URL('../../clients/typescript/src/index.ts', import.meta.url));

export default defineConfig({
  plugins: [react()],
  resolve: { alias: { 'fieldmark-client': client } },
  server: { fs: { allow: ['../..'] } },
  // The variables of .env that reach the page. Never add the secret key or an address of the database.
  envPrefix: ['VITE_', 'SUPABASE_URL', 'SUPABASE_PUBLISHABLE_KEY'],
});
