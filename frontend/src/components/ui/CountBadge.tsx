/** A number beside a name; nothing for 0. */

import { formatNumber } from '../../shared/format';

export function CountBadge({ count, isMore = false }: { count: number; isMore?: boolean | undefined }) {
  if (count === 0) return null;
  return (
    <>
      {' '}
      <span className="inline-flex h-4 min-w-4 items-center justify-center rounded-full bg-primary px-1.5 text-2xs font-semibold text-primary-foreground">
        {formatNumber(count)}
        {isMore ? '+' : ''}
      </span>
    </>
  );
}
