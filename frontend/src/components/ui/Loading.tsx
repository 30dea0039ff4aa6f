/** Placeholder lines while something loads. */

import { t } from '../../shared/i18n';
import { Skeleton } from './Skeleton';

export function Loading({ lines = 6 }: { lines?: number }) {
  return (
    <div className="grid gap-4 p-6" role="status" aria-label={t('common.loading')}>
      {Array.from({ length: lines }, (_, index) => (
        <Skeleton key={index} className={index % 3 === 2 ? 'w-2/5' : 'w-3/5'} />
      ))}
    </div>
  );
}

/** The head and the rows of a list while it loads, as high as they will be. */
export function LoadingRows({ height, lines = 12 }: { height: number; lines?: number }) {
  return (
    <div className="min-w-0 flex-1 overflow-hidden" role="status" aria-label={t('common.loading')}>
      <div className="h-8 border-b border-border bg-sidebar" />
      {Array.from({ length: lines }, (_, index) => (
        <div key={index} className="flex items-center gap-8 border-b border-line px-4" style={{ height }}>
          <Skeleton className={index % 3 === 2 ? 'w-1/5' : 'w-1/4'} />
          <Skeleton className="w-1/6" />
          <Skeleton className="w-1/12" />
        </div>
      ))}
    </div>
  );
}
