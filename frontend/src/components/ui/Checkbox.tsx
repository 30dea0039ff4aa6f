/** A checkbox, with its label if it has one of its own. */

import { Checkbox as Base } from '@base-ui/react/checkbox';
import { Check, Minus } from 'lucide-react';
import type { ReactNode } from 'react';
import { cn } from './cn';

interface Props {
  checked: boolean;
  onChange: (checked: boolean, event: Event) => void;
  /** Some of what it stands for is chosen. */
  isPartial?: boolean;
  disabled?: boolean;
  /** The accessible name, where no text is beside it. */
  label?: string;
  className?: string;
  children?: ReactNode;
}

export function Checkbox({ checked, onChange, isPartial = false, disabled, label, className, children }: Props) {
  const box = (
    <Base.Root
      checked={checked}
      indeterminate={isPartial}
      onCheckedChange={(next, { event }) => onChange(next, event)}
      disabled={disabled === true}
      aria-label={label}
      className={cn(
        'relative flex size-4 shrink-0 items-center justify-center rounded-xs border border-input bg-background',
        'data-checked:border-primary data-checked:bg-primary data-indeterminate:border-primary data-indeterminate:bg-primary',
        'data-disabled:cursor-default data-disabled:opacity-50 not-data-checked:hover:border-muted-foreground',
        'before:absolute before:-inset-1.5 before:content-[""]',
        children === undefined && className,
      )}>
      <Base.Indicator className="text-primary-foreground">
        {isPartial ? <Minus size={12} strokeWidth={3} /> : <Check size={12} strokeWidth={3} />}
      </Base.Indicator>
    </Base.Root>
  );
  if (children === undefined) return box;
  return (
    <label className={cn('flex min-h-7 items-center gap-2 max-sm:min-h-11', className)}>
      {box}
      {children}
    </label>
  );
}
