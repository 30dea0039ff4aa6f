/** The colour theme: light, dark, or the system's. */

import { persisted } from './persisted';

export type Theme = 'system' | 'light' | 'dark';

export const theme = persisted<Theme>('fieldmark.theme', (stored) =>
  stored === 'light' || stored === 'dark' ? stored : 'system',
);

const apply = () => {
  if (theme.get() === 'system') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme.get();
};

export function followTheme(): void {
  apply();
  theme.subscribe(apply);
}
