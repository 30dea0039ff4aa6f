/** How numbers are calculated, shown on demand. */

import type { ReactNode } from 'react';
import { t } from '../shared/i18n';

export function Method({ children }: { children: ReactNode }) {
  return (
    <details className="text-xs text-muted-foreground">
      <summary className="w-fit rounded-xs hover:text-foreground">{t('quality.method')}</summary>
      <p className="mt-1.5 max-w-prose">{children}</p>
    </details>
  );
}
