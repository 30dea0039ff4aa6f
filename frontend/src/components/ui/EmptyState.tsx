/** An empty list or page: what will be here, and the one action that brings it. */

import type { LucideIcon } from 'lucide-react';
import type { ReactNode } from 'react';

interface Props {
  icon?: LucideIcon;
  title: string;
  text?: ReactNode;
  /** The one action: a button or a link. */
  children?: ReactNode;
}

export function EmptyState({ icon: Sign, title, text, children }: Props) {
  return (
    <div className="mx-auto flex max-w-md flex-col items-center gap-3 px-6 py-16 text-center">
      {Sign !== undefined && (
        <span className="flex size-10 items-center justify-center rounded-lg border border-border bg-card text-muted-foreground">
          <Sign size={20} strokeWidth={1.5} aria-hidden="true" />
        </span>
      )}
      <h2 className="text-lg font-semibold">{title}</h2>
      {text !== undefined && <p className="text-muted-foreground">{text}</p>}
      {children}
    </div>
  );
}
