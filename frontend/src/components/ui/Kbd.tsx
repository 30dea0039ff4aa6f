/** A key, beside the control that it operates. A touch screen has none. */

import { cn } from './cn';
import { keyText } from './keyText';

export function Kbd({ children, onPrimary = false }: { children: string; onPrimary?: boolean }) {
  return (
    <kbd
      aria-hidden="true"
      className={cn(
        'inline-flex max-sm:hidden pointer-coarse:hidden h-4 min-w-4 shrink-0 items-center justify-center rounded-xs border px-1 font-sans text-[0.625rem] leading-none font-medium',
        onPrimary
          ? 'border-white/30 bg-white/20 text-primary-foreground'
          : 'border-border bg-background text-muted-foreground',
      )}>
      {keyText(children)}
    </kbd>
  );
}
