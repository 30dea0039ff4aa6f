/** A button. `kind`: the one main action of a view, an ordinary one, or one without a border. */

import type { LucideIcon } from 'lucide-react';
import type { ComponentPropsWithRef, ReactNode } from 'react';
import { cn } from './cn';
import { Kbd } from './Kbd';
import { tooltip } from './Tooltip';

export interface ButtonProps extends ComponentPropsWithRef<'button'> {
  kind?: 'main' | 'plain' | 'quiet';
  /** `sm`: 28 px, in heads and panels. `md`: 32 px, in sheets. `lg`: 44 px, on phones. */
  size?: 'sm' | 'md' | 'lg';
  danger?: boolean;
  icon?: LucideIcon | undefined;
  /** The accessible name of a button that shows only an icon. It is also the tooltip. */
  label?: string | undefined;
  /** The keys that do the same, as shown: "⌘↵", "A". */
  keys?: string | undefined;
  children?: ReactNode;
}

const KINDS = {
  main: 'border-transparent bg-primary text-primary-foreground hover:not-disabled:bg-primary-hover disabled:bg-muted disabled:text-muted-foreground',
  plain: 'border-input bg-background hover:not-disabled:bg-hover disabled:text-faint',
  quiet: 'border-transparent bg-transparent hover:not-disabled:bg-hover disabled:text-faint',
};
const SIZES = { sm: 'min-h-7 px-2.5 text-sm', md: 'min-h-8 px-3 text-sm', lg: 'min-h-11 px-4 text-base' };
const ICON_SIZES = { sm: 'min-h-7 min-w-7', md: 'min-h-8 min-w-8', lg: 'min-h-11 min-w-11' };

export function buttonClass({ kind = 'plain', size = 'sm', danger, label }: ButtonProps = {}): string {
  return cn(
    'inline-flex shrink-0 items-center justify-center gap-1.5 rounded-md border font-medium whitespace-nowrap no-underline',
    'transition-colors duration-100 select-none aria-disabled:cursor-default aria-disabled:text-faint',
    'aria-pressed:border-primary aria-pressed:bg-accent disabled:cursor-default',
    KINDS[kind],
    label === undefined ? SIZES[size] : ICON_SIZES[size],
    kind === 'main' ? danger === true && 'bg-bad! text-background!' : danger === true ? 'text-bad' : 'text-foreground',
  );
}

export function Button({ kind, size, danger, icon: Sign, label, keys, className, children, ...others }: ButtonProps) {
  return (
    <button
      type="button"
      aria-label={label}
      aria-keyshortcuts={keys === undefined ? undefined : ariaKeys(keys)}
      {...(label !== undefined && tooltip(label, keys))}
      className={cn(buttonClass({ kind, size, danger: danger === true, label }), className)}
      {...others}>
      {Sign !== undefined && <Sign size={size === 'lg' ? 18 : 15} strokeWidth={1.75} aria-hidden="true" />}
      {children}
      {keys !== undefined && label === undefined && (
        <Kbd onPrimary={kind === 'main' && others.disabled !== true}>{keys}</Kbd>
      )}
    </button>
  );
}

/** "⌘↵" is what people see; screen readers get the names of WAI-ARIA. */
function ariaKeys(keys: string): string {
  return keys.replace('⌘', 'Control+').replace('⇧', 'Shift+').replace('↵', 'Enter');
}
