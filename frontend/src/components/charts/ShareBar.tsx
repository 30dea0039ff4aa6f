/** A horizontal bar. The numbers beside it say the same, so screen readers skip it. */

import { cn } from '../ui/cn';

interface Props {
  /** From 0 to 1. */
  share: number;
  /** A lighter part behind it, also from 0: an upper bound. */
  bound?: number | undefined;
  className?: string;
}

export function ShareBar({ share, bound, className }: Props) {
  return (
    <span aria-hidden="true" className={cn('relative block h-1.5 overflow-hidden rounded-full bg-muted', className)}>
      {bound !== undefined && <Part share={bound} className="bg-primary-soft" />}
      <Part share={share} className="bg-primary" />
    </span>
  );
}

function Part({ share, className }: { share: number; className: string }) {
  const width = `${Math.min(Math.max(share, 0), 1) * 100}%`;
  return <span className={cn('absolute inset-y-0 left-0 rounded-full', className)} style={{ width }} />;
}
