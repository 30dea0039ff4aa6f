/** What a period cost, and how good its values were, on one page. Every number opens what it counts. */

import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { Table2 } from 'lucide-react';
import { type ReactNode, useState } from 'react';
import { ColumnChart } from '../components/charts/ColumnChart';
import { ShareBar } from '../components/charts/ShareBar';
import type { Overview, TableCost } from '../api/types';
import { Button } from '../components/ui/Button';
import { Card } from '../components/ui/Card';
import { cn } from '../components/ui/cn';
import { ErrorNotice } from '../components/ui/Notice';
import { Skeleton } from '../components/ui/Skeleton';
import { Table, Td, Th, Tr } from '../components/ui/Table';
import { Tabs } from '../components/ui/Tabs';
import { pathLabel } from '../fields/labels';
import { agentName } from '../run/toolText';
import {
  formatCents,
  formatCost,
  formatDuration,
  formatNumber,
  formatShare,
  formatShortDay,
  sumCosts,
  visibleText,
} from '../shared/format';
import { t } from '../shared/i18n';
import { overviewQuery } from './overviewQueries';
import { daysOf, neighbour, type Period, periodName, periodView, today } from './period';
import { PeriodPicker } from './PeriodPicker';

const MAX_FIELDS = 6;
const MAX_TABLES = 6;

export function PeriodSection({ period }: { period: Period }) {
  const { data, isError, error, refetch, isPlaceholderData } = useQuery(overviewQuery(period));
  const before = useQuery(overviewQuery(neighbour(period, -1)));
  return (
    <section aria-label={t('home.period.title')} className="grid gap-4">
      <div className="flex flex-wrap items-center justify-between gap-x-8 gap-y-3">
        <PeriodPicker period={period} />
        {data !== undefined && !isError && <Summary data={data} period={period} />}
      </div>
      {isError && <ErrorNotice error={error} onRetry={() => void refetch()} />}
      {data === undefined && !isError && <Skeleton className="h-64 rounded-lg" />}
      {data !== undefined && !isError && (
        <div
          aria-busy={isPlaceholderData}
          className={cn(
            'grid items-start gap-4 lg:grid-cols-2 xl:grid-cols-[3.5fr_3.5fr_5fr]',
            isPlaceholderData && 'opacity-60',
          )}>
          <DaysCard data={data} period={period} before={before.isPlaceholderData ? undefined : before.data} />
          <SharesCard data={data} period={period} />
          <FieldsCard data={data} period={period} />
        </div>
      )}
    </section>
  );
}

function Summary({ data, period }: { data: Overview; period: Period }) {
  const { total } = data.cost;
  const { checks, work } = data.quality;
  const facts: [string, string, ReactNode][] = [];
  const documents = formatNumber(total.documents_read);
  facts.push([
    'documents',
    t('home.period.documents', { count: total.documents_read }),
    <Link
      key="documents"
      to="/documents"
      search={{ since: period.since, until: period.until }}
      className="font-semibold text-foreground">
      {documents}
    </Link>,
  ]);
  if (!isFree(data)) facts.push(['cost', t('home.period.cost'), formatCost(total.cost_usd)]);
  if (total.documents_read > 0 && !isFree(data)) {
    facts.push(['each', t('home.period.each'), formatCents(readingCost(data) / total.documents_read)]);
  }
  if (checks.checked > 0) {
    facts.push(['unchanged', t('home.period.unchanged'), formatShare(1 - checks.corrected / checks.checked)]);
  }
  if (work.gaps > 0 && work.seconds >= 1) {
    const seconds = Math.max(1, Math.round(work.seconds / work.documents));
    facts.push(['work', t('home.period.workEach'), formatDuration(seconds * 1000)]);
  }
  return (
    <dl className="flex flex-wrap gap-x-6 gap-y-1">
      {facts.map(([key, name, value]) => (
        <div key={key} className="flex flex-row-reverse gap-1.5">
          <dt className="text-muted-foreground">{name}</dt>
          <dd className="font-semibold">{value}</dd>
        </div>
      ))}
    </dl>
  );
}

/** Without questions and chats, which read no document for a table. */
function readingCost(data: Overview): number {
  const read = data.cost.by_table.filter((one) => one.share.documents_read > 0);
  return sumCosts(read.map((one) => one.share.cost_usd)) ?? 0;
}

/** No cost is known of the documents that were read: they are counted instead. */
function isFree({ cost: { total } }: Overview): boolean {
  return total.cost_usd === 0 && total.documents_read > 0;
}

interface CardProps {
  data: Overview;
  period: Period;
}

function DaysCard({ data, period, before }: CardProps & { before: Overview | undefined }) {
  const [isTable, setTable] = useState(false);
  const { cost, credit } = data;
  const days = daysOf(period);
  const now = today();
  const isCounted = isFree(data);
  const columns = days.map((day) => {
    const share = cost.by_day.find((one) => one.day === day)?.share;
    const count = share?.documents_read ?? 0;
    const spent = share?.cost_usd ?? 0;
    const documents = t('common.documents', { count });
    return {
      id: day,
      value: isCounted ? count : spent,
      label: period.span === 'month' ? String(Number(day.slice(8))) : formatShortDay(day),
      title: `${formatShortDay(day)}: ${isCounted ? '' : `${formatCost(spent)}, `}${documents}`,
      link: { to: '/documents', search: { since: day, until: day } } as const,
      isStrong: day === now,
    };
  });
  const passed = days.filter((day) => day <= now).length;
  const isOpen = passed > 0 && passed < days.length;
  const ofToday = columns.find((one) => one.isStrong)?.value ?? 0;
  const format = isCounted ? formatNumber : formatCost;
  const amountOf = ({ cost: { total } }: Overview) =>
    isCounted ? t('common.documents', { count: total.documents_read }) : formatCost(total.cost_usd);
  return (
    <Card
      title={t(isCounted ? 'home.days.read' : 'home.days.title')}
      actions={
        <Button kind="quiet" icon={Table2} aria-pressed={isTable} onClick={() => setTable(!isTable)}>
          {t('home.asTable')}
        </Button>
      }>
      {isTable ? (
        <div className="max-h-52 overflow-y-auto">
          <DaysTable data={data} />
        </div>
      ) : (
        <ColumnChart
          columns={columns}
          formatValue={(value) => format(value)}
          note={ofToday > 0 ? t('home.days.today', { cost: format(ofToday) }) : undefined}
        />
      )}
      <div className="mt-2 flex flex-wrap justify-between gap-x-4 gap-y-1 text-xs text-muted-foreground">
        <span>
          {[
            credit?.max_usd != null && t('home.days.limit', { limit: formatCost(credit.max_usd) }),
            isOpen && cost.total.cost_usd > 0
              ? t('home.days.forecast', { cost: formatCost((cost.total.cost_usd / passed) * days.length) })
              : false,
            cost.total.unpriced > 0 && t('home.days.unpriced', { count: cost.total.unpriced }),
          ]
            .filter(Boolean)
            .join(', ')}
        </span>
        {before !== undefined && (
          <span>
            {periodName(neighbour(period, -1))}: {amountOf(before)}
          </span>
        )}
      </div>
    </Card>
  );
}

function DaysTable({ data }: { data: Overview }) {
  return (
    <Table label={t('home.days.title')}>
      <thead>
        <tr>
          <Th>{t('home.days.day')}</Th>
          <Th className="text-right">{t('home.documents')}</Th>
          <Th className="text-right">{t('home.cost')}</Th>
        </tr>
      </thead>
      <tbody>
        {data.cost.by_day.map(({ day, share }) => (
          <Tr key={day}>
            <Td>{formatShortDay(day)}</Td>
            <Td className="text-right">
              <Link to="/documents" search={{ since: day, until: day }} className="text-link">
                {formatNumber(share.documents_read)}
              </Link>
            </Td>
            <Td className="text-right">{formatCost(share.cost_usd)}</Td>
          </Tr>
        ))}
        <Tr>
          <Td className="text-muted-foreground">{t('home.sum')}</Td>
          <Td className="text-right font-medium">{formatNumber(data.cost.total.documents_read)}</Td>
          <Td className="text-right font-medium">{formatCost(data.cost.total.cost_usd)}</Td>
        </Tr>
      </tbody>
    </Table>
  );
}

type By = 'table' | 'model';

function SharesCard({ data, period }: CardProps) {
  const [by, setBy] = useState<By>('table');
  const [isWhole, setWhole] = useState(false);
  const { by_table: byTable, by_model: byModel, total } = data.cost;
  const isCounted = isFree(data);
  const shares =
    by === 'table'
      ? byTable.map((one) => ({
          key: `${one.schema_id} ${one.agent} ${one.task}`,
          share: one.share,
          name: <TableName table={one} period={period} />,
        }))
      : byModel.map(({ model, share }) => ({ key: model, share, name: visibleText(model) }));
  const all = isCounted ? shares.filter((one) => one.share.documents_read > 0) : shares;
  const amount = ({ documents_read: documents, cost_usd: cost }: TableCost['share']) => (isCounted ? documents : cost);
  const format = isCounted ? formatNumber : formatCost;
  const rows = isWhole || all.length <= MAX_TABLES ? all : all.slice(0, MAX_TABLES - 1);
  const most = Math.max(...all.map((one) => amount(one.share)), 0);
  return (
    <Card
      title={t(isCounted ? 'home.shares.read' : 'home.shares.title')}
      actions={
        <Tabs
          kind="segments"
          label={t('home.shares.by')}
          value={by}
          tabs={[
            { value: 'table', label: t('home.shares.table') },
            { value: 'model', label: t('home.shares.model') },
          ]}
          onChange={setBy}
        />
      }>
      {all.length === 0 ? (
        <p className="text-muted-foreground">{t('home.shares.none')}</p>
      ) : (
        <Table label={t('home.shares.title')}>
          <thead className="sr-only">
            <tr>
              <Th>{t(`home.shares.${by}`)}</Th>
              <td />
              <Th>{t(isCounted ? 'home.documents' : 'home.cost')}</Th>
              <Th>{t('home.period.each')}</Th>
            </tr>
          </thead>
          <tbody>
            {rows.map((one) => (
              <tr key={one.key}>
                <Td className="w-full max-w-0 truncate pl-0">{one.name}</Td>
                <Td className="min-w-14">
                  <ShareBar share={most === 0 ? 0 : amount(one.share) / most} />
                </Td>
                <Td className="pl-0 text-right font-medium">{format(amount(one.share))}</Td>
                <Td className="px-0 text-right text-xs whitespace-nowrap text-muted-foreground">
                  {!isCounted &&
                    one.share.documents_read > 0 &&
                    formatCents(one.share.cost_usd / one.share.documents_read)}
                </Td>
              </tr>
            ))}
            <tr className="border-t border-border">
              <Td className="pl-0 text-muted-foreground">{t('home.sum')}</Td>
              <Td>
                {rows.length < all.length && (
                  <button type="button" className="text-xs text-link" onClick={() => setWhole(true)}>
                    {t('home.more', { count: all.length - rows.length })}
                  </button>
                )}
              </Td>
              <Td className="pl-0 text-right font-medium">{format(amount(total))}</Td>
              <Td className="px-0" />
            </tr>
          </tbody>
        </Table>
      )}
    </Card>
  );
}

/** The table that was read into, or what else the agents did. */
function TableName({ table, period }: { table: TableCost; period: Period }) {
  const className = 'text-foreground no-underline hover:underline';
  if (table.stack_id !== null) {
    return (
      <Link to="/tables/$tableId" params={{ tableId: table.stack_id }} className={className}>
        {visibleText(table.table ?? t('home.shares.deleted'))}
      </Link>
    );
  }
  if (table.schema_id !== null && table.table !== null) {
    return (
      <Link to="/tables/$tableId" params={{ tableId: table.schema_id }} className={className}>
        {visibleText(table.table)}
      </Link>
    );
  }
  if (table.schema_id !== null) return t('home.shares.deleted');
  if (table.task === 'ask') {
    return (
      <Link to="/ask" className={className}>
        {t('areas.ask')}
      </Link>
    );
  }
  if (table.task === 'auto_create') return t('home.shares.suggestions');
  if (table.task === 'extract') {
    return (
      <Link to="/documents" search={{ since: period.since, until: period.until }} className={className}>
        {t('home.shares.noTable')}
      </Link>
    );
  }
  return agentName(table.agent ?? '');
}

function FieldsCard({ data, period }: CardProps) {
  const [isWhole, setWhole] = useState(false);
  const { quality } = data;
  const rows = isWhole ? quality.fields : quality.fields.slice(0, MAX_FIELDS);
  const most = Math.max(...quality.fields.map(rateOf), 0.001);
  const tables = new Set(quality.fields.map((one) => one.schema_id));
  return (
    <Card
      title={t('home.fields.title')}
      className="lg:max-xl:col-span-2"
      actions={<span className="text-xs text-muted-foreground">{t('home.fields.confidence')}</span>}>
      {quality.fields.length === 0 ? (
        <p className="text-muted-foreground">{t('home.fields.none')}</p>
      ) : (
        <Table label={t('home.fields.title')}>
          <thead>
            <tr>
              <Th className="border-0 pl-0">
                <span className="sr-only">{t('common.field')}</span>
              </Th>
              <Th className="border-0" colSpan={2}>
                {t('home.fields.corrected')}
              </Th>
              <Th className="border-0 text-right">{t('home.fields.atMost')}</Th>
              <Th className="border-0 text-right">{t('home.fields.missing')}</Th>
              <Th className="border-0 pr-0 text-right whitespace-normal!">{t('home.fields.notFound')}</Th>
            </tr>
          </thead>
          <tbody>
            {rows.map((one) => (
              <FieldRow
                key={`${one.schema_id} ${one.pattern}`}
                field={one}
                most={most}
                period={period}
                withTable={tables.size > 1}
              />
            ))}
          </tbody>
        </Table>
      )}
      <p className="mt-2 text-xs text-muted-foreground">
        {quality.checks.checked > 0 &&
          t('home.fields.sum', {
            corrected: formatNumber(quality.checks.corrected),
            checked: formatNumber(quality.checks.checked),
            bound: formatShare(quality.checks.at_most ?? 0),
          })}{' '}
        {t('home.fields.included')}{' '}
        {rows.length < quality.fields.length && (
          <button type="button" className="text-link" onClick={() => setWhole(true)}>
            {t('home.more', { count: quality.fields.length - rows.length })}
          </button>
        )}
      </p>
    </Card>
  );
}

const rateOf = ({ checks }: Overview['quality']['fields'][number]) =>
  checks.checked === 0 ? 0 : checks.corrected / checks.checked;

interface FieldRowProps {
  field: Overview['quality']['fields'][number];
  most: number;
  period: Period;
  withTable: boolean;
}

function FieldRow({ field, most, period, withTable }: FieldRowProps) {
  const { checks, schema_id: schemaId, pattern } = field;
  const corrections =
    schemaId === null
      ? undefined
      : ({
          to: '/quality/$schemaId',
          params: { schemaId },
          search: { ...periodView(period), column: pattern },
        } as const);
  const rate = checks.checked === 0 ? '–' : formatShare(rateOf(field));
  const title = t('home.fields.of', {
    corrected: formatNumber(checks.corrected),
    checked: formatNumber(checks.checked),
  });
  return (
    <tr>
      <Td className="w-full max-w-0 min-w-20 truncate pl-0" title={visibleText(pattern)}>
        {pathLabel(pattern)}
        {withTable && field.table !== null && (
          <span className="text-xs text-muted-foreground"> {visibleText(field.table)}</span>
        )}
      </Td>
      <Td className="min-w-12">
        <ShareBar share={rateOf(field) / most} />
      </Td>
      <Td className="text-right font-medium" title={title}>
        {corrections === undefined || checks.corrected === 0 ? (
          rate
        ) : (
          <Link {...corrections} className="text-foreground" aria-label={`${rate}, ${title}`}>
            {rate}
          </Link>
        )}
      </Td>
      <Td className="text-right text-muted-foreground">
        {checks.at_most === null ? '–' : formatShare(checks.at_most)}
      </Td>
      <Td className="text-right">
        <Open schemaId={schemaId} count={field.missing} name={t('home.fields.missing')} />
      </Td>
      <Td className="pr-0 text-right">
        <Open schemaId={schemaId} count={field.not_found} name={t('home.fields.notFound')} />
      </Td>
    </tr>
  );
}

/** The values that need a person now: the rows of the table with such cells. */
function Open({ schemaId, count, name }: { schemaId: string | null; count: number; name: string }) {
  if (count === 0) return <span className="text-muted-foreground">0</span>;
  const number = formatNumber(count);
  if (schemaId === null) return <span className="font-medium text-need">{number}</span>;
  return (
    <Link
      to="/tables/$tableId"
      params={{ tableId: schemaId }}
      search={{ cells: 'to_review' }}
      aria-label={`${number} ${name}`}
      className="font-medium text-need">
      {number}
    </Link>
  );
}
