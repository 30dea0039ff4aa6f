/** How far something is. */

import { Progress as Base } from '@base-ui/react/progress';
import { cn } from './cn';

interface Props {
  /** From 0 to `max`; null: it is not known. */
  value: number | null;
  max?: number;
  label: string;
  className?: string;
}

export function Progress({ value, max = 100, label, className }: Props) {
  return (
    <Base.Root value={value} max={max} aria-label={label} className={cn('w-full', className)}>
      <Base.Track className="h-1 overflow-hidden rounded-full bg-muted">
        <Base.Indicator
          className={cn(
            'h-full rounded-full bg-primary transition-[width] duration-300',
            value === null && 'w-full animate-shimmer',
          )}
        />
      </Base.Track>
    </Base.Root>
  );
}
