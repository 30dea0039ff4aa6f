/** A framed part of a page, with its title. */

import { type ReactNode, useId } from 'react';
import { cn } from './cn';

interface Props {
  title?: ReactNode;
  /** The accessible name of a card without a title. */
  label?: string;
  /** Beside the title, at the right. */
  actions?: ReactNode;
  className?: string;
  children: ReactNode;
}

export function Card({ title, label, actions, className, children }: Props) {
  const id = useId();
  return (
    <section
      aria-label={label}
      aria-labelledby={title === undefined ? undefined : id}
      className={cn('min-w-0 rounded-lg border border-border bg-card px-5 py-4', className)}>
      {(title !== undefined || actions !== undefined) && (
        <div className="mb-3 flex min-h-7 items-center justify-between gap-2">
          <h2 id={id} className="text-sm font-semibold">
            {title}
          </h2>
          {actions}
        </div>
      )}
      {children}
    </section>
  );
}
