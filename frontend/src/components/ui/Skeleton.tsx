/** A placeholder for a value. The text for screen readers is said once, by the list or page around it. */

import { cn } from './cn';

export function Skeleton({ className }: { className?: string }) {
  return <span aria-hidden="true" className={cn('block h-2.5 animate-shimmer rounded-full bg-border', className)} />;
}
