/** A control with its label, a hint, and an error that is announced. */

import { Field as Base } from '@base-ui/react/field';
import type { ReactNode } from 'react';
import { cn } from './cn';

interface Props {
  label: ReactNode;
  hint?: ReactNode;
  error?: ReactNode;
  /** `row`: the label left of the control, for switches and checkboxes. */
  layout?: 'column' | 'row';
  className?: string;
  children: ReactNode;
}

export function Field({ label, hint, error, layout = 'column', className, children }: Props) {
  const isInvalid = error !== undefined && error !== null && error !== false;
  const name = <Base.Label className="text-sm font-medium">{label}</Base.Label>;
  const description = hint !== undefined && (
    <Base.Description className="max-w-prose text-xs text-muted-foreground">{hint}</Base.Description>
  );
  return (
    <Base.Root invalid={isInvalid} className={cn('grid gap-1', className)}>
      {layout === 'row' ? (
        <div className="flex flex-wrap items-center justify-between gap-x-6 gap-y-2">
          <div className="grid min-w-48 flex-1 gap-0.5">
            {name}
            {description}
          </div>
          {children}
        </div>
      ) : (
        <>
          {name}
          {children}
          {description}
        </>
      )}
      {isInvalid && (
        <Base.Error match className="text-xs text-bad">
          {error}
        </Base.Error>
      )}
    </Base.Root>
  );
}
