/** The list of tables. */

import { useQuery } from '@tanstack/react-query';
import { Link, useNavigate } from '@tanstack/react-router';
import { Plus, Table2 } from 'lucide-react';
import { useState } from 'react';
import { Button } from '../components/ui/Button';
import { EmptyState } from '../components/ui/EmptyState';
import { LoadingRows } from '../components/ui/Loading';
import { ErrorNotice } from '../components/ui/Notice';
import { Progress } from '../components/ui/Progress';
import { StatusPill } from '../components/ui/StatusPill';
import { Table, Td, Th, Tr } from '../components/ui/Table';
import { useCanWrite } from '../session/role';
import { formatAge, formatNumber, formatTime, visibleText } from '../shared/format';
import { t } from '../shared/i18n';
import { NewTableDialog } from './NewTableDialog';
import { tablesQuery } from '../records/tablesQuery';

export function TablesPage() {
  const tables = useQuery(tablesQuery);
  const navigate = useNavigate();
  const canWrite = useCanWrite();
  const [isCreating, setCreating] = useState(false);
  const items = tables.data ?? [];
  const create = canWrite && (
    <Button kind="main" icon={Plus} onClick={() => setCreating(true)}>
      {t('stacks.new')}
    </Button>
  );
  return (
    <div className="flex h-full flex-col bg-background">
      <header className="flex min-h-12 shrink-0 items-center justify-between gap-2 border-b border-border px-4">
        <h1 className="text-lg font-semibold">{t('areas.tables')}</h1>
        {items.length > 0 && create}
      </header>
      {tables.isError && <ErrorNotice error={tables.error} onRetry={() => void tables.refetch()} />}
      {tables.isPending ? (
        <LoadingRows height={34} />
      ) : items.length === 0 && tables.isSuccess ? (
        <EmptyState icon={Table2} title={t('stacks.none')} text={t('stacks.noneHint')}>
          {create}
        </EmptyState>
      ) : (
        <div className="min-h-0 flex-1 overflow-auto">
          <Table label={t('areas.tables')}>
            <thead className="max-sm:sr-only">
              <tr>
                <Th className="pl-4">{t('stacks.name')}</Th>
                <Th className="text-right">{t('areas.documents')}</Th>
                <Th className="pl-8">{t('statuses.done')}</Th>
                <Th className="pl-4 max-lg:hidden">{t('tables.lastChange')}</Th>
                <Th className="pr-4">{t('tables.status')}</Th>
              </tr>
            </thead>
            <tbody>
              {items.map((table) => (
                <Tr
                  key={table.id}
                  className="cursor-pointer hover:bg-hover"
                  onClick={() => void navigate({ to: '/tables/$tableId', params: { tableId: table.id } })}>
                  <Td className="w-1/2 max-w-0 pl-4 max-sm:h-15 max-sm:w-full">
                    <Link
                      to="/tables/$tableId"
                      params={{ tableId: table.id }}
                      className="flex items-center gap-2 font-medium text-foreground no-underline hover:underline">
                      <Table2 size={15} className="shrink-0 text-muted-foreground" aria-hidden="true" />
                      <span className="truncate">{visibleText(table.name)}</span>
                    </Link>
                    <p className="pl-6 text-xs text-muted-foreground sm:hidden">
                      {t('common.documents', { count: table.records })} · {formatAge(table.changed_at)}
                    </p>
                  </Td>
                  <Td className="text-right max-sm:hidden">{formatNumber(table.records)}</Td>
                  <Td className="w-1/4 pl-8 max-sm:hidden">
                    {table.records > 0 && (
                      <span className="flex items-center gap-3">
                        <Progress
                          className="max-w-40 max-lg:hidden"
                          value={table.records - table.to_review}
                          max={table.records}
                          label={`${t('statuses.done')}: ${visibleText(table.name)}`}
                        />
                        <span className="text-xs whitespace-nowrap text-muted-foreground">
                          {t('home.reading.progress', {
                            done: formatNumber(table.records - table.to_review),
                            total: formatNumber(table.records),
                          })}
                        </span>
                      </span>
                    )}
                  </Td>
                  <Td
                    className="pl-4 whitespace-nowrap text-muted-foreground max-lg:hidden"
                    title={formatTime(table.changed_at)}>
                    {formatAge(table.changed_at)}
                  </Td>
                  <Td className="pr-4 text-right whitespace-nowrap sm:w-40 sm:text-left">
                    {table.to_review > 0 && (
                      <StatusPill tone="need">{t('tables.needYou', { count: table.to_review })}</StatusPill>
                    )}
                  </Td>
                </Tr>
              ))}
            </tbody>
          </Table>
        </div>
      )}
      {isCreating && <NewTableDialog onClose={() => setCreating(false)} />}
    </div>
  );
}
