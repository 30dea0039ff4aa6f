/** A setting that is on or off, and takes effect at once. */

import { Switch as Base } from '@base-ui/react/switch';
import { cn } from './cn';

interface Props {
  checked: boolean;
  onChange: (checked: boolean) => void;
  disabled?: boolean;
  /** The accessible name, where no `Field` gives one. */
  label?: string;
  className?: string;
}

export function Switch({ checked, onChange, disabled, label, className }: Props) {
  return (
    <Base.Root
      checked={checked}
      onCheckedChange={(next) => onChange(next)}
      disabled={disabled === true}
      aria-label={label}
      className={cn(
        'relative flex h-3.5 w-6 shrink-0 items-center rounded-full bg-input p-0.5 transition-colors duration-100',
        'data-checked:bg-primary data-disabled:cursor-default data-disabled:opacity-50',
        'before:absolute before:-inset-x-1.5 before:-inset-y-2 before:content-[""]',
        className,
      )}>
      <Base.Thumb className="size-2.5 rounded-full bg-white shadow-sm transition-transform duration-100 data-checked:translate-x-2.5" />
    </Base.Root>
  );
}
