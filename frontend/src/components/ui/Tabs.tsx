/** Tabs under a head, or segments (`kind="segments"`) for a few short alternatives. */

import { Tabs as Base } from '@base-ui/react/tabs';
import type { ReactNode } from 'react';
import { cn } from './cn';
import { formatNumber } from '../../shared/format';

export interface Tab<Value extends string> {
  value: Value;
  label: ReactNode;
  /** A text where more may follow: 50+. */
  count?: number | string | undefined;
}

interface Props<Value extends string> {
  value: Value;
  tabs: readonly Tab<Value>[];
  onChange: (value: Value) => void;
  label: string;
  kind?: 'line' | 'segments';
  /** The panels, as `TabPanel`s. */
  children?: ReactNode;
  /** At the right of the tabs. */
  trailing?: ReactNode;
  className?: string;
  /** Of the row of tabs. */
  listClass?: string;
}

export function Tabs<Value extends string>(props: Props<Value>) {
  const { value, tabs, onChange, label, kind = 'line', children, trailing, className, listClass } = props;
  const isLine = kind === 'line';
  return (
    <Base.Root value={value} onValueChange={(next) => onChange(next as Value)} className={className}>
      <div className={cn('flex items-center', isLine && 'border-b border-border')}>
        <Base.List
          aria-label={label}
          className={cn(
            'min-w-0 flex-auto',
            'flex overflow-x-auto [scrollbar-width:none]',
            isLine ? 'h-10 items-stretch gap-1 px-3' : 'gap-0.5 rounded-md bg-muted p-0.5',
            listClass,
          )}>
          {tabs.map((tab) => (
            <Base.Tab
              key={tab.value}
              value={tab.value}
              className={cn(
                'flex items-center gap-1.5 px-2 text-sm whitespace-nowrap text-muted-foreground outline-offset-[-2px]',
                'hover:text-foreground data-active:font-medium data-active:text-foreground',
                isLine
                  ? '-mb-px border-b-2 border-transparent data-active:border-primary'
                  : 'min-h-6 rounded-sm data-active:bg-background data-active:shadow-sm',
              )}>
              {tab.label}
              {tab.count !== undefined && (
                <span className="font-normal text-muted-foreground">
                  {typeof tab.count === 'number' ? formatNumber(tab.count) : tab.count}
                </span>
              )}
            </Base.Tab>
          ))}
        </Base.List>
        {trailing}
      </div>
      {children}
    </Base.Root>
  );
}

export function TabPanel({ value, className, children }: { value: string; className?: string; children: ReactNode }) {
  return (
    <Base.Panel value={value} className={cn('min-h-0', className)}>
      {children}
    </Base.Panel>
  );
}
