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
  return (
    <Base.Root invalid={isInvalid} className={cn('grid gap-1', className)}>
      <div className={layout === 'row' ? 'flex items-center justify-between gap-4' : 'grid gap-1'}>
        <Base.Label className="text-sm font-medium">{label}</Base.Label>
        {children}
      </div>
      {hint !== undefined && <Base.Description className="text-xs text-muted-foreground">{hint}</Base.Description>}
      {isInvalid && (
        <Base.Error match className="text-xs text-bad">
          {error}
        </Base.Error>
      )}
    </Base.Root>
  );
}
