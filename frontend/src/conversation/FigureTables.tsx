/** The figures of an answer as tables. Each leads to the rows that it was computed from. */

import { queryOptions, useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { Copy, Table2 } from 'lucide-react';
import { api } from '../api/client';
import type { FigureTable } from '../api/types';
import { ShareBar } from '../components/charts/ShareBar';
import { Button, buttonClass } from '../components/ui/Button';
import { Table, Td, Th, Tr } from '../components/ui/Table';
import { displayValue } from '../fields/fieldValue';
import { pathLabel } from '../fields/labels';
import { formatMonth, formatNumber, visibleText } from '../shared/format';
import { t } from '../shared/i18n';
import { columnSum, type FigureColumn, type FigureGroup, figureColumns, figureIn, rowConditions } from './figures';
import { copyText } from '../shared/copyText';

interface Props {
  figures: readonly FigureTable[];
  /** The documents whose values the figures have as sources. */
  documents: readonly string[];
}

export function FigureTables({ figures, documents }: Props) {
  const table = useQuery({ ...tableOfQuery(documents), enabled: documents.length > 0 }).data ?? null;
  const grouped = figures.filter(isGrouped);
  return figures.map((one, index) => (
    <OneTable
      key={index}
      figures={one}
      tableId={one.where.stack_id ?? table}
      hasTotals={!isGrouped(one) || (one === grouped[0] && grouped.length === figures.length)}
      hasActions={isGrouped(one) || grouped.length === 0}
    />
  ));
}

function isGrouped({ groups }: FigureTable): boolean {
  return groups.some(({ key }) => key !== null);
}

/** The table that most of these documents are in. */
const tableOfQuery = (documents: readonly string[]) =>
  queryOptions({
    queryKey: ['documents', 'table of', documents],
    queryFn: async ({ signal }) => {
      const query = { document_id: [...documents], details: true, limit: documents.length };
      const { items } = await api.get('/api/documents', { query, signal });
      const counts = new Map<string, number>();
      for (const { table_id: id } of items.flatMap((one) => one.tables ?? []))
        counts.set(id, (counts.get(id) ?? 0) + 1);
      return [...counts].toSorted(([, a], [, b]) => b - a)[0]?.[0] ?? null;
    },
    staleTime: 60_000,
  });

interface OneProps {
  figures: FigureTable;
  tableId: string | null;
  /** The figures of all groups are above the table. */
  hasTotals: boolean;
  hasActions: boolean;
}

function OneTable({ figures, tableId, hasTotals, hasActions }: OneProps) {
  const columns = figureColumns(figures);
  const { groups, group_by: by } = figures;
  const rows = rowConditions(figures);
  const isTable = isGrouped(figures);
  // The columns of one aggregate differ in their currency only.
  const isOne = columns.every(
    ({ op, path, isOneOfSeveral }) => isOneOfSeveral && path === columns[0]!.path && op === columns[0]!.op,
  );
  const sums = columns.map((one) => columnSum(figures, one));
  const totals = isTable ? sums : columns.map((one) => figureIn(groups[0]!, one));
  // A share is that of one sum: with several currencies there is none.
  const whole = columns[0]?.isOneOfSeveral === false ? Number(sums[0] ?? 0) : 0;
  const hasSums = sums.some((one) => one !== undefined);
  const documents = groups.reduce((sum, one) => sum + one.documents, 0);
  return (
    <div className="grid grid-cols-[minmax(0,1fr)] gap-3">
      {hasTotals && (!isTable || hasSums) && (
        <dl className="flex flex-wrap gap-x-8 gap-y-2">
          <Total name={t('areas.documents')} value={formatNumber(documents)} />
          {columns.map(
            (column, index) =>
              totals[index] !== undefined && (
                <Total key={index} name={columnName(column)} value={figureText(column, totals[index])} />
              ),
          )}
        </dl>
      )}
      {isTable && (
        <div className="overflow-hidden rounded-lg border border-border bg-card">
          <Table label={t('answer.figures')}>
            <thead className="bg-sidebar">
              <tr>
                <Th className="sticky left-0 bg-sidebar pl-3">{keyName(by)}</Th>
                <Th className="text-right max-sm:hidden">{t('areas.documents')}</Th>
                {columns.map((one, index) => (
                  <Th key={index} className="pr-3 text-right" colSpan={index === 0 && whole > 0 ? 2 : 1}>
                    {isOne ? moneyName(one) : columnName(one)}
                  </Th>
                ))}
              </tr>
            </thead>
            <tbody>
              {groups.map((group, at) => (
                <Tr key={at}>
                  <Td className="sticky left-0 max-w-60 truncate bg-card pl-3 font-medium max-sm:max-w-40">
                    <GroupLink tableId={tableId} figures={figures} group={group} />
                  </Td>
                  <Td className="text-right text-muted-foreground max-sm:hidden">{formatNumber(group.documents)}</Td>
                  {columns.map((column, index) => {
                    const value = figureIn(group, column);
                    return (
                      <FigureCells
                        key={index}
                        text={value === undefined ? '' : figureText(column, value)}
                        share={index === 0 && whole > 0 ? Number(value ?? 0) / whole : undefined}
                      />
                    );
                  })}
                </Tr>
              ))}
              {hasSums && (
                <Tr className="bg-sidebar font-semibold">
                  <Td className="sticky left-0 bg-sidebar pl-3">{t('answer.sum')}</Td>
                  <Td className="text-right max-sm:hidden">{formatNumber(documents)}</Td>
                  {columns.map((column, index) => (
                    <FigureCells
                      key={index}
                      text={sums[index] === undefined ? '' : figureText(column, sums[index])}
                      share={index === 0 && whole > 0 ? null : undefined}
                    />
                  ))}
                </Tr>
              )}
            </tbody>
          </Table>
        </div>
      )}
      {figures.groups_total > groups.length && (
        <p className="text-xs text-muted-foreground">
          {t('tables.largestGroups', { count: groups.length, total: figures.groups_total })}
        </p>
      )}
      <div className="flex flex-wrap gap-1 empty:hidden">
        {hasActions && tableId !== null && rows !== undefined && (
          <Link
            to="/tables/$tableId"
            params={{ tableId }}
            search={{
              ...(rows.length > 0 && { filter: rows }),
              ...(by?.kind === 'field' && by.path != null && !by.path.includes('[') && { group: by.path }),
            }}
            className={buttonClass()}>
            <Table2 size={15} strokeWidth={1.75} aria-hidden="true" />
            {t('answer.openAsTable')}
          </Link>
        )}
        {isTable && (
          <Button kind="quiet" icon={Copy} onClick={() => void copyText(asText(figures), t('answer.copied'))}>
            {t('answer.copy')}
          </Button>
        )}
      </div>
    </div>
  );
}

function Total({ name, value }: { name: string; value: string }) {
  return (
    <div>
      <dt className="text-xs text-muted-foreground">{name}</dt>
      <dd className="text-3xl font-semibold">{value}</dd>
    </div>
  );
}

/** A figure. `share`: the bar before it; null: room for one; undefined: no bars in this column. */
function FigureCells({ text, share }: { text: string; share: number | null | undefined }) {
  return (
    <>
      {share !== undefined && (
        <Td className="w-20 min-w-12 max-sm:hidden">{share !== null && <ShareBar share={share} />}</Td>
      )}
      <Td className="pr-3 text-right whitespace-nowrap tabular-nums">{text}</Td>
    </>
  );
}

function GroupLink({ tableId, figures, group }: { tableId: string | null; figures: FigureTable; group: FigureGroup }) {
  const text = keyText(figures, group);
  const filter = rowConditions(figures, group);
  if (tableId === null || filter === undefined) return text;
  return (
    <Link
      to="/tables/$tableId"
      params={{ tableId }}
      search={{ filter }}
      className="text-foreground no-underline hover:underline">
      {text}
    </Link>
  );
}

function keyName(by: FigureTable['group_by']): string {
  if (by === null) return '';
  if (by.path == null) return t(by.kind === 'tag' ? 'documents.tag' : 'answer.documentType');
  return by.kind === 'field' ? pathLabel(by.path) : t(`answer.by.${by.kind as 'month' | 'year'}`);
}

function keyText({ group_by: by }: FigureTable, { key }: FigureGroup): string {
  if (key === null) return t('answer.without', { field: by?.path == null ? keyName(by) : pathLabel(by.path) });
  return by?.kind === 'month' ? formatMonth(`${key}-01`) : displayValue(key);
}

function columnName(column: FigureColumn): string {
  const { op, path } = column;
  const name = path === null ? t('areas.documents') : t(`answer.ops.${op}`, { field: pathLabel(path) });
  const money = moneyName(column);
  return money === '' ? name : `${name}, ${money}`;
}

function moneyName({ currency, isOneOfSeveral }: FigureColumn): string {
  if (currency !== null) return visibleText(currency);
  return isOneOfSeveral ? t('tables.noCurrency') : '';
}

function figureText({ op, currency, isOneOfSeveral }: FigureColumn, value: string): string {
  if (!/^-?\d/.test(value) || /^\d{4}-/.test(value)) return displayValue(value);
  const isMoney = (currency !== null || isOneOfSeveral) && op !== 'count';
  return formatNumber(Number(value), { maximumFractionDigits: 4, ...(isMoney && { minimumFractionDigits: 2 }) });
}

/** Return the figures as text that spreadsheets read. */
function asText(figures: FigureTable): string {
  const columns = figureColumns(figures);
  const lines = figures.groups.map((group) => [
    keyText(figures, group),
    group.documents,
    ...columns.map((one) => figureIn(group, one) ?? ''),
  ]);
  const head = [keyName(figures.group_by), t('areas.documents'), ...columns.map(columnName)];
  return [head, ...lines].map((line) => line.join('\t')).join('\n');
}
