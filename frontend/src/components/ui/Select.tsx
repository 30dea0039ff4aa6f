/** A choice of one from a list. */

import { Select as Base } from '@base-ui/react/select';
import { Check, ChevronDown, type LucideIcon } from 'lucide-react';
import { cn } from './cn';
import { inputClass } from './Input';
import { itemClass, popupClass } from './popup';

export interface SelectOption<Value extends string> {
  value: Value;
  label: string;
  icon?: LucideIcon;
  /** A second, lighter line. */
  hint?: string;
  disabled?: boolean;
}

interface Props<Value extends string> {
  value: Value | null;
  options: readonly SelectOption<Value>[];
  onChange: (value: Value) => void;
  /** The accessible name, where no `Field` gives one. */
  label?: string;
  placeholder?: string;
  disabled?: boolean;
  /** `quiet`: a word with a chevron, in heads. */
  kind?: 'plain' | 'quiet';
  className?: string;
  id?: string;
}

export function Select<Value extends string>({
  value,
  options,
  onChange,
  label,
  placeholder,
  disabled = false,
  kind = 'plain',
  className,
  id,
}: Props<Value>) {
  const chosen = options.find((one) => one.value === value);
  return (
    <Base.Root
      items={options as SelectOption<Value>[]}
      value={value}
      onValueChange={(next) => next !== null && onChange(next as Value)}
      disabled={disabled}
      modal={false}
      {...(id !== undefined && { id })}>
      <Base.Trigger
        aria-label={label === undefined ? undefined : `${label}: ${chosen?.label ?? placeholder ?? ''}`}
        className={cn(
          kind === 'plain' ? inputClass : 'min-h-7 rounded-md px-2 hover:bg-hover data-popup-open:bg-hover',
          'inline-flex items-center justify-between gap-1.5 text-left select-none disabled:cursor-default',
          kind === 'quiet' && 'font-medium text-muted-foreground',
          className,
        )}>
        {chosen?.icon !== undefined && <chosen.icon size={15} className="shrink-0" aria-hidden="true" />}
        <span className={cn('min-w-0 flex-1 truncate', chosen === undefined && 'text-faint')}>
          {chosen?.label ?? placeholder ?? ''}
        </span>
        <ChevronDown size={14} className="shrink-0 text-muted-foreground" aria-hidden="true" />
      </Base.Trigger>
      <Base.Portal>
        <Base.Positioner sideOffset={4} alignItemWithTrigger={false} className="z-50 outline-none">
          <Base.Popup className={cn(popupClass, 'max-h-(--available-height) min-w-(--anchor-width) overflow-y-auto')}>
            <Base.List>
              {options.map((one) => (
                <Base.Item key={one.value} value={one.value} disabled={one.disabled === true} className={itemClass}>
                  {one.icon !== undefined && <one.icon size={15} className="shrink-0" aria-hidden="true" />}
                  <span className="min-w-0 flex-1">
                    <Base.ItemText>{one.label}</Base.ItemText>
                    {one.hint !== undefined && (
                      <span className="block text-xs text-muted-foreground first-letter:uppercase">{one.hint}</span>
                    )}
                  </span>
                  <Base.ItemIndicator className="shrink-0">
                    <Check size={14} aria-hidden="true" />
                  </Base.ItemIndicator>
                </Base.Item>
              ))}
            </Base.List>
          </Base.Popup>
        </Base.Positioner>
      </Base.Portal>
    </Base.Root>
  );
}
