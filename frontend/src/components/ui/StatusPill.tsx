/** A status: a word with an icon, so that colour is never the only sign. */

import type { LucideIcon } from 'lucide-react';
import type { ReactNode } from 'react';
import { cn } from './cn';

export type Tone = 'plain' | 'accent' | 'need' | 'ok' | 'bad';

const PILL: Record<Tone, string> = {
  plain: 'bg-muted text-muted-foreground',
  accent: 'bg-accent text-link',
  need: 'bg-need-bg text-need',
  ok: 'bg-ok-bg text-ok',
  bad: 'bg-bad-bg text-bad',
};
const TEXT: Record<Tone, string> = {
  plain: 'text-muted-foreground',
  accent: 'text-link',
  need: 'text-need',
  ok: 'text-muted-foreground [&_svg]:text-ok',
  bad: 'text-bad',
};

interface Props {
  tone?: Tone;
  icon?: LucideIcon | undefined;
  /** `text`: without the pill, in rows of tables. */
  kind?: 'pill' | 'text';
  className?: string;
  children: ReactNode;
}

export function StatusPill({ tone = 'plain', icon: Sign, kind = 'pill', className, children }: Props) {
  return (
    <span
      className={cn(
        'inline-flex min-w-0 items-center gap-1 align-middle text-xs whitespace-nowrap',
        kind === 'pill' ? cn('h-5 rounded-full px-2', PILL[tone]) : TEXT[tone],
        tone !== 'plain' && 'font-medium',
        className,
      )}>
      {Sign !== undefined && <Sign size={13} strokeWidth={2} className="shrink-0" aria-hidden="true" />}
      <span className="truncate">{children}</span>
    </span>
  );
}

/** A small amber dot: something in here needs a person. The text is for screen readers. */
export function NeedDot({ text }: { text: string }) {
  return (
    <span className="inline-flex size-1.5 shrink-0 rounded-full bg-need-dot">
      <span className="sr-only">{text}</span>
    </span>
  );
}
