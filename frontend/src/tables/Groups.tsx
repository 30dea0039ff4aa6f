/** The rows of a table by the value of a column: their number, those that need a person, and sums by currency. */

import { useQuery } from '@tanstack/react-query';
import type { TableColumn } from '../api/types';
import { EmptyState } from '../components/ui/EmptyState';
import { Loading } from '../components/ui/Loading';
import { ErrorNotice } from '../components/ui/Notice';
import { Table, Td, Th, Tr } from '../components/ui/Table';
import { displayValue } from '../document/fields/fieldValue';
import { formatNumber } from '../shared/format';
import { t } from '../shared/i18n';
import { Amount } from './ColumnTotals';
import { columnLabel } from './gridColumns';
import { groupsQuery, type TableRequest } from './tableQueries';
import type { Condition } from './tableView';

interface Props {
  request: TableRequest;
  columns: readonly TableColumn[];
  by: TableColumn;
  /** Show the rows of one group. */
  onOpen: (condition: Condition) => void;
}

export function Groups({ request, columns, by, onOpen }: Props) {
  const groups = useQuery({ ...groupsQuery(request, by.path), placeholderData: (before) => before });
  if (groups.isError) return <ErrorNotice error={groups.error} onRetry={() => void groups.refetch()} />;
  if (groups.data === undefined) return <Loading />;
  const { items, total } = groups.data;
  const summed = columns.filter(({ path }) => items.some((one) => one.totals.some(({ column }) => column === path)));
  if (items.length === 0) return <EmptyState title={t('tables.empty')} />;
  return (
    <div className="min-h-0 flex-1 overflow-auto">
      <Table label={t('tables.groupedBy', { column: columnLabel(by, request.list) })}>
        <thead className="sticky top-0 z-1 bg-sidebar">
          <tr>
            <Th className="pl-4">{columnLabel(by, request.list)}</Th>
            <Th className="text-right">{t('tables.rows')}</Th>
            {summed.map((one) => (
              <Th key={one.path} className="text-right">
                {columnLabel(one, request.list)}
              </Th>
            ))}
            <Th className="pr-4">{t('tables.status')}</Th>
          </tr>
        </thead>
        <tbody>
          {items.map((group) => (
            <Tr key={`${group.kind} ${group.value}`} className="align-top hover:bg-hover">
              <Td className="py-1.5 pl-4">
                <button
                  type="button"
                  className="text-left font-medium hover:underline"
                  onClick={() => onOpen(conditionOf(by.path, group.value, group.kind))}>
                  {group.value === null ? (
                    <span className="text-faint">{t('fields.nothing')}</span>
                  ) : (
                    displayValue(typedValue(group.value, group.kind), {
                      type: group.kind === 'day' ? 'date' : group.kind === 'number' ? 'number' : 'string',
                      decimals: 0,
                    })
                  )}
                </button>
              </Td>
              <Td className="py-1.5 text-right">{formatNumber(group.rows)}</Td>
              {summed.map((one) => (
                <Td key={one.path} className="py-1.5 text-right">
                  {group.totals
                    .filter(({ column }) => column === one.path)
                    .map(({ currency, sum }) => (
                      <span key={currency} className="block">
                        <Amount sum={sum} currency={currency} />
                      </span>
                    ))}
                </Td>
              ))}
              <Td className="py-1.5 pr-4 text-need">
                {group.to_review > 0 && t('tables.needYou', { count: group.to_review })}
              </Td>
            </Tr>
          ))}
        </tbody>
      </Table>
      {total > items.length && (
        <p className="p-4 text-muted-foreground">{t('tables.largestGroups', { count: items.length, total })}</p>
      )}
    </div>
  );
}

function typedValue(value: string, kind: string | null): string | number | boolean {
  if (kind === 'number') return Number(value);
  return kind === 'boolean' ? value === 'true' : value;
}

function conditionOf(path: string, value: string | null, kind: string | null): Condition {
  if (value === null) return { path, op: 'missing' };
  return { path, op: '=', value: kind === 'text' ? JSON.stringify(value) : value };
}
