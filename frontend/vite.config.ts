import { fileURLToPath } from 'node:url';
import tailwindcss from '@tailwindcss/vite';
import react from '@vitejs/plugin-react';
import { defineConfig } from 'vite';

const here = (path: string) => fileURLToPath(new URL(path, import.meta.url));

export default defineConfig({
  base: './', // the page may be below a path: the service writes where its files are (api/web_ui.py)
  plugins: [react(), tailwindcss()],
  resolve: {
    alias: { '@fieldmark/following': here('../clients/typescript/src/following.ts') },
    dedupe: ['react', 'react-dom'],
  },
  build: {
    outDir: here('../backend/fieldmark/page_files'),
    emptyOutDir: true,
    assetsInlineLimit: 0, // data: in a script is allowed nowhere
    modulePreload: { polyfill: false }, // it would be a script in the page itself, which its policy forbids
    target: 'es2023',
    cssTarget: ['chrome123', 'firefox120', 'safari17.5'], // the first with light-dark()
  },
  // `npm run dev`: the page as it is being written, before a service that runs (`fieldmark serve`).
  server: {
    host: '127.0.0.1',
    fs: { allow: [here('.'), here('../clients/typescript/src'), here('../docs')] },
    proxy: { '/api': process.env.FIELDMARK_URL ?? 'http://127.0.0.1:8731' },
  },
  test: { environment: 'happy-dom', include: ['src/**/*.test.{ts,tsx}'] },
} as Parameters<typeof defineConfig>[0]);
