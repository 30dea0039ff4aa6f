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
import { columnSums, type Figure, type FigureGroup, figureColumns, rowConditions } from './figures';
import { copyText } from '../shared/copyText';

interface Props {
  figures: readonly FigureTable[];
  /** The documents whose values the figures have as sources. */
  documents: readonly string[];
}

export function FigureTables({ figures, documents }: Props) {
  const table = useQuery({ ...tableOfQuery(documents), enabled: documents.length > 0 }).data ?? null;
  return figures.map((one, index) => <OneTable key={index} figures={one} tableId={one.where.stack_id ?? table} />);
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

function OneTable({ figures, tableId }: { figures: FigureTable; tableId: string | null }) {
  const columns = figureColumns(figures);
  const { groups, group_by: by } = figures;
  const rows = rowConditions(figures);
  const isTable = groups.length > 1 || columns.length > 1;
  const [first] = columns;
  const total = first === undefined ? [] : columnSums(figures, first);
  // A share is that of one sum: with several currencies there is none.
  const whole = total.length === 1 ? Number(total[0]!.value) : 0;
  return (
    <div className="grid gap-2.5">
      {!isTable && (
        <dl className="flex flex-wrap gap-x-10 gap-y-2">
          {groups
            .flatMap((group) => group.results)
            .map((one, index) => (
              <div key={index}>
                <dt className="text-xs text-muted-foreground">{columnName(one)}</dt>
                <dd className="text-2xl font-semibold">
                  {figureText(one)}{' '}
                  <span className="text-lg font-normal text-muted-foreground">{visibleText(one.currency ?? '')}</span>
                </dd>
              </div>
            ))}
        </dl>
      )}
      {isTable && (
        <div className="overflow-hidden rounded-lg border border-border bg-card">
          <Table label={t('answer.figures')}>
            <thead className="bg-sidebar">
              <tr>
                <Th className="pl-3">{keyName(by)}</Th>
                <Th className="text-right">{t('areas.documents')}</Th>
                {columns.map((one, index) => (
                  <Th key={index} className="pr-3 text-right" colSpan={index === 0 && whole > 0 ? 2 : 1}>
                    {columnName(one)}
                  </Th>
                ))}
              </tr>
            </thead>
            <tbody>
              {groups.map((group, at) => (
                <Tr key={at}>
                  <Td className="max-w-60 truncate pl-3 font-medium">
                    <GroupLink tableId={tableId} figures={figures} group={group} />
                  </Td>
                  <Td className="text-right text-muted-foreground">{formatNumber(group.documents)}</Td>
                  {columns.map((column, index) => {
                    const found = group.results.filter(({ op, path }) => op === column.op && path === column.path);
                    return (
                      <FigureCells
                        key={index}
                        found={found}
                        share={index === 0 && whole > 0 ? Number(found[0]?.value ?? 0) / whole : undefined}
                      />
                    );
                  })}
                </Tr>
              ))}
              {total.length > 0 && (
                <Tr className="bg-sidebar font-semibold">
                  <Td className="pl-3">{t('answer.sum')}</Td>
                  <Td className="text-right">{formatNumber(groups.reduce((sum, one) => sum + one.documents, 0))}</Td>
                  {columns.map((column, index) => (
                    <FigureCells
                      key={index}
                      found={columnSums(figures, column)}
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
      <div className="flex flex-wrap gap-1">
        {tableId !== null && rows !== undefined && (
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

/** A figure in each currency. `share`: the bar before it; null: room for one; undefined: no bars in this column. */
function FigureCells({ found, share }: { found: readonly Figure[]; share: number | null | undefined }) {
  return (
    <>
      {share !== undefined && (
        <Td className="w-20 min-w-12 max-sm:hidden">{share !== null && <ShareBar share={share} />}</Td>
      )}
      <Td className="py-1.5 pr-3 text-right whitespace-nowrap">
        {found.map((one, index) => (
          <span key={index} className="block">
            {figureText(one)}{' '}
            <span className="font-normal text-muted-foreground">{visibleText(one.currency ?? '')}</span>
          </span>
        ))}
      </Td>
    </>
  );
}

function GroupLink({ tableId, figures, group }: { tableId: string | null; figures: FigureTable; group: FigureGroup }) {
  const text = figures.group_by === null ? t('answer.all') : keyText(figures, group);
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

function columnName({ op, path }: Pick<Figure, 'op' | 'path'>): string {
  return path === null ? t('areas.documents') : t(`answer.ops.${op}`, { field: pathLabel(path) });
}

function figureText({ op, value, currency }: Figure): string {
  if (!/^-?\d/.test(value) || /^\d{4}-/.test(value)) return displayValue(value);
  const decimals = currency === null || op === 'count' ? {} : { minimumFractionDigits: 2 };
  return formatNumber(Number(value), { maximumFractionDigits: 4, ...decimals });
}

/** Return the figures as text that spreadsheets read, one line a group and currency. */
function asText(figures: FigureTable): string {
  const columns = figureColumns(figures);
  const head = [keyName(figures.group_by), t('areas.documents'), ...columns.map(columnName), t('answer.currency')];
  const lines = figures.groups.flatMap((group) =>
    [...new Set(group.results.map((one) => one.currency))].map((currency) => [
      keyText(figures, group),
      group.documents,
      ...columns.map(
        ({ op, path }) =>
          group.results.find((one) => one.op === op && one.path === path && one.currency === currency)?.value ?? '',
      ),
      currency ?? '',
    ]),
  );
  return [head, ...lines].map((line) => line.join('\t')).join('\n');
}
