/** The list of tables. */

import { useQuery } from '@tanstack/react-query';
import { Link, useNavigate } from '@tanstack/react-router';
import { Plus, Table2 } from 'lucide-react';
import { useState } from 'react';
import { Button } from '../components/ui/Button';
import { EmptyState } from '../components/ui/EmptyState';
import { Loading } from '../components/ui/Loading';
import { ErrorNotice } from '../components/ui/Notice';
import { Progress } from '../components/ui/Progress';
import { StatusPill } from '../components/ui/StatusPill';
import { Table, Td, Th, Tr } from '../components/ui/Table';
import { useCanWrite } from '../session/role';
import { formatNumber, visibleText } from '../shared/format';
import { t } from '../shared/i18n';
import { NewTableDialog } from './NewTableDialog';
import { tablesQuery } from '../records/tableQueries';

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
        <Loading />
      ) : items.length === 0 && tables.isSuccess ? (
        <EmptyState icon={Table2} title={t('stacks.none')} text={t('stacks.noneHint')}>
          {create}
        </EmptyState>
      ) : (
        <div className="min-h-0 flex-1 overflow-auto">
          <Table label={t('areas.tables')}>
            <thead>
              <tr>
                <Th className="pl-4">{t('stacks.name')}</Th>
                <Th className="text-right">{t('areas.documents')}</Th>
                <Th className="max-sm:hidden">{t('tables.rowStatuses.done')}</Th>
                <Th className="pr-4">{t('tables.status')}</Th>
              </tr>
            </thead>
            <tbody>
              {items.map((table) => (
                <Tr
                  key={table.id}
                  className="cursor-pointer hover:bg-hover"
                  onClick={() => void navigate({ to: '/tables/$tableId', params: { tableId: table.id } })}>
                  <Td className="pl-4">
                    <Link
                      to="/tables/$tableId"
                      params={{ tableId: table.id }}
                      className="flex items-center gap-2 font-medium text-foreground no-underline hover:underline">
                      <Table2 size={15} className="text-muted-foreground" aria-hidden="true" />
                      <span className="truncate">{visibleText(table.name)}</span>
                    </Link>
                  </Td>
                  <Td className="text-right">{formatNumber(table.records)}</Td>
                  <Td className="w-1/3 max-sm:hidden">
                    {table.records > 0 && (
                      <Progress
                        className="max-w-40"
                        value={table.records - table.to_review}
                        max={table.records}
                        label={`${t('tables.rowStatuses.done')}: ${visibleText(table.name)}`}
                      />
                    )}
                  </Td>
                  <Td className="w-40 pr-4">
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
