/** A plain table: heads of 32 px, rows of 34, lines between them. It scrolls sideways within its own frame. */

import type { ComponentPropsWithRef } from 'react';
import { cn } from './cn';

interface TableProps extends ComponentPropsWithRef<'table'> {
  /** The accessible name. */
  label: string;
  /** In a card, whose edges its first and last columns have. */
  isFlush?: boolean;
}

const FLUSH = '[&_:is(td,th):first-child]:pl-0 [&_:is(td,th):last-child]:pr-0';

export function Table({ label, isFlush = false, className, ...others }: TableProps) {
  return (
    <div role="region" aria-label={label} tabIndex={0} className="min-w-0 overflow-x-auto outline-offset-[-2px]">
      <table className={cn('w-full border-collapse text-left text-sm', isFlush && FLUSH, className)} {...others} />
    </div>
  );
}

export function Th({ className, ...others }: ComponentPropsWithRef<'th'>) {
  return (
    <th
      scope="col"
      className={cn(
        'h-8 border-b border-border px-2 text-xs font-normal whitespace-nowrap text-muted-foreground',
        className,
      )}
      {...others}
    />
  );
}

export function Tr({ className, ...others }: ComponentPropsWithRef<'tr'>) {
  return <tr className={cn('border-b border-line last:border-0 aria-selected:bg-accent', className)} {...others} />;
}

export function Td({ className, ...others }: ComponentPropsWithRef<'td'>) {
  return <td className={cn('h-[2.125rem] px-2', className)} {...others} />;
}
