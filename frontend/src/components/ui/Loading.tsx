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
