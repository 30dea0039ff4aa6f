/** A list of the settings as a table. Its last column has the actions of a row. */

import type { UseQueryResult } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { Card } from '../components/ui/Card';
import { cn } from '../components/ui/cn';
import { LoadingRows } from '../components/ui/Loading';
import { ErrorNotice } from '../components/ui/Notice';
import { Table, Th } from '../components/ui/Table';
import { t } from '../shared/i18n';
import { LIMIT } from '../session/people';

interface ListProps<Item> extends Props<Item> {
  title?: string;
  /** What the list is for. */
  hint?: string;
  /** The button that adds to it. */
  add?: ReactNode;
}

/** A list that is a part of a page: what it is for, what adds to it, its rows. */
export function SettingsList<Item>({ title, hint, add, ...table }: ListProps<Item>) {
  return (
    <Card
      title={title}
      actions={hint === undefined ? add : undefined}
      className={cn(hint !== undefined && 'grid gap-3')}>
      {hint !== undefined && (
        <div className="flex flex-wrap items-center gap-3">
          <p className="min-w-60 flex-1 text-muted-foreground">{hint}</p>
          {add}
        </div>
      )}
      <SettingsTable {...table} />
    </Card>
  );
}

interface Props<Item> {
  label: string;
  list: UseQueryResult<{ items: Item[]; next?: string | null }>;
  /** The `Th` of the other columns. */
  heads: ReactNode;
  /** Instead of a table without rows. */
  empty?: ReactNode;
  row: (item: Item) => ReactNode;
}

export function SettingsTable<Item>({ label, list, heads, empty, row }: Props<Item>) {
  if (list.isError) return <ErrorNotice error={list.error} onRetry={() => void list.refetch()} />;
  if (list.data === undefined) return <LoadingRows height={44} lines={3} />;
  if (list.data.items.length === 0) return empty;
  return (
    <>
      <Table isFlush label={label}>
        <thead>
          <tr>
            {heads}
            <Th>
              <span className="sr-only">{t('common.actions')}</span>
            </Th>
          </tr>
        </thead>
        <tbody className="[&_td]:h-11">{list.data.items.map(row)}</tbody>
      </Table>
      {list.data.next && <p className="muted">{t('settings.latest', { count: LIMIT })}</p>}
    </>
  );
}
