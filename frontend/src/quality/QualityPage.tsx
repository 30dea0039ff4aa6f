/** How good the values of a table were: by column and by week, with the last corrections of people. */

import { useQuery } from '@tanstack/react-query';
import { getRouteApi, Link } from '@tanstack/react-router';
import { ArrowRight, Table2, X } from 'lucide-react';
import { type ReactNode, useEffect, useState } from 'react';
import type { Box, CountedKind, CountedValue, TableQuality } from '../api/types';
import { BoundChart } from '../components/charts/BoundChart';
import { ShareBar } from '../components/charts/ShareBar';
import { Avatar } from '../session/Avatar';
import { Button } from '../components/ui/Button';
import { cn } from '../components/ui/cn';
import { EmptyState } from '../components/ui/EmptyState';
import { Loading } from '../components/ui/Loading';
import { ErrorNotice } from '../components/ui/Notice';
import { Table, Td, Th, Tr } from '../components/ui/Table';
import { countedValuesQuery, MOST_VALUES, overviewQuery, qualityQuery } from '../home/overviewQueries';
import { type Period, periodOf } from '../home/period';
import { PeriodPicker } from '../home/PeriodPicker';
import { schemaQuery } from '../fields/extractionQueries';
import { pathLabel } from '../fields/labels';
import { schemaFields } from '../fields/schemaFields';
import {
  DAY_MS,
  formatCents,
  formatCost,
  formatNumber,
  formatShare,
  formatShortDay,
  formatTime,
  visibleText,
} from '../shared/format';
import { t } from '../shared/i18n';
import { TableViews } from '../shared/TableViews';
import { useUpdateSearch } from '../shared/useUpdateSearch';
import { Crop } from '../viewer/Crop';
import { CountButton } from './CountButton';
import { Method } from './Method';
import { ReviewClaim } from './ReviewClaim';
import type { QualityView } from './qualityView';
import { valueFormat } from './valueFormat';

const route = getRouteApi('/quality/$schemaId');
const WEEK_MS = 7 * DAY_MS;

export function QualityPage() {
  const { schemaId } = route.useParams();
  const view = route.useSearch();
  const period = periodOf(view);
  const { data, isError, error, refetch } = useQuery(qualityQuery(schemaId, period));
  useEffect(() => {
    if (data !== undefined)
      document.title = t('common.pageTitle', { title: t('quality.title', { table: visibleText(data.name) }) });
  }, [data?.name]);
  if (isError) {
    return (
      <div className="p-6">
        <ErrorNotice error={error} onRetry={() => void refetch()} />
      </div>
    );
  }
  if (data === undefined) return <Loading />;
  return (
    <div className="grid h-full grid-rows-[auto_minmax(0,1fr)] bg-background max-xl:min-h-full max-xl:h-auto max-xl:grid-rows-[auto_1fr]">
      <div className="flex flex-wrap min-h-12 items-center gap-x-4 gap-y-2 border-b border-border px-4 py-1.5">
        <h1 className="truncate text-lg font-semibold">{visibleText(data.name)}</h1>
        <TableViews schemaId={schemaId} tableId={data.stack_id ?? schemaId} />
        <span className="flex-1" />
        <PeriodPicker period={period} as="p" />
      </div>
      <div className="grid min-h-0 xl:grid-cols-[minmax(0,1fr)_23.5rem]">
        <div className="grid content-start gap-6 p-4 xl:overflow-y-auto">
          {data.checks.checked === 0 && data.documents === 0 ? (
            <EmptyState icon={Table2} title={t('quality.none')} text={t('quality.noneHint')} />
          ) : (
            <>
              <Figures schemaId={schemaId} period={period} data={data} />
              <Weeks data={data} />
              <Columns data={data} view={view} />
              <ReviewClaim schemaId={schemaId} data={data} />
              <Method>{t('quality.included')}</Method>
            </>
          )}
        </div>
        <Values schemaId={schemaId} period={period} column={view.column} show={view.show ?? 'corrected'} />
      </div>
    </div>
  );
}

interface FiguresProps {
  schemaId: string;
  period: Period;
  data: TableQuality;
}

/** What the table cost in the period, and how good its values were. */
function Figures({ schemaId, period, data }: FiguresProps) {
  const { checks, documents, columns, filled, work } = data;
  const cells = documents * columns.filter((one) => one.filled !== null).length;
  const share = (part: number, of: number) => (of === 0 ? '–' : formatShare(part / of));
  const figures: [string, string, string, CountedKind, number][] = [
    [
      t('quality.filled'),
      share(filled, cells),
      t('quality.filledHint', { filled: formatNumber(filled), cells: formatNumber(cells) }),
      'filled',
      filled,
    ],
    [
      t('quality.unchanged'),
      share(checks.checked - checks.corrected, checks.checked),
      t('quality.unchangedHint', {
        people: t('quality.people', { count: work.people }),
        documents: t('common.documents', { count: work.documents }),
      }),
      'confirmed',
      checks.checked - checks.corrected,
    ],
    [
      t('quality.corrected'),
      share(checks.corrected, checks.checked),
      t('quality.values', { count: checks.corrected }),
      'corrected',
      checks.corrected,
    ],
    [
      t('quality.atMost'),
      checks.at_most === null ? '–' : formatShare(checks.at_most),
      t('quality.atMostHint', { checked: formatNumber(checks.checked) }),
      'checked',
      checks.checked,
    ],
  ];
  const cost = useQuery(overviewQuery(period)).data?.cost.by_table.find((one) => one.schema_id === schemaId)?.share;
  return (
    <dl className="grid grid-cols-2 gap-4 sm:auto-cols-auto sm:grid-flow-col sm:grid-cols-none">
      {cost !== undefined && cost.cost_usd > 0 && (
        <div className="max-sm:col-span-2">
          <dt className="text-xs text-muted-foreground">{t('home.cost')}</dt>
          <dd className="text-3xl font-semibold">{formatCost(cost.cost_usd)}</dd>
          <dd className="text-xs text-muted-foreground">
            {t('quality.costHint', { each: formatCents(cost.cost_usd / Math.max(cost.documents_read, 1)) })}
          </dd>
        </div>
      )}
      {figures.map(([name, value, hint, show, count]) => (
        <div key={name} className="border-border sm:not-first:border-l sm:not-first:pl-4">
          <dt className="text-xs text-muted-foreground">{name}</dt>
          <dd className="text-3xl font-semibold">{value}</dd>
          <dd className="text-xs text-muted-foreground">
            <CountButton show={show} count={count}>
              {hint}
            </CountButton>
          </dd>
        </div>
      ))}
    </dl>
  );
}

function Weeks({ data }: { data: TableQuality }) {
  const [isTable, setTable] = useState(false);
  const weeks = data.weeks.map(({ monday, checks }) => ({
    id: monday,
    monday: Date.parse(monday),
    share: checks.corrected / checks.checked,
    bound: checks.at_most ?? 0,
    label: formatShortDay(monday),
    note: `${t('quality.n')} ${formatNumber(checks.checked)}`,
    title: t('home.fields.of', { corrected: formatNumber(checks.corrected), checked: formatNumber(checks.checked) }),
  }));
  if (weeks.length === 0) return null;
  return (
    <section aria-labelledby="by-week" className="grid gap-2">
      <div className="flex flex-wrap items-center gap-x-5 gap-y-1">
        <h2 id="by-week" className="text-sm font-semibold">
          {t('quality.byWeek')}
        </h2>
        <span className="flex items-center gap-1.5 text-xs text-muted-foreground">
          <span className="w-5 border-t-2 border-primary" /> {t('quality.corrected')}
        </span>
        <span className="flex items-center gap-1.5 text-xs text-muted-foreground">
          <span className="w-5 border-t-2 border-dashed border-primary" /> {t('quality.atMostSure')}
        </span>
        <span className="flex-1" />
        <Button kind="quiet" icon={Table2} aria-pressed={isTable} onClick={() => setTable(!isTable)}>
          {t('home.asTable')}
        </Button>
      </div>
      {isTable ? (
        <Table label={t('quality.byWeek')}>
          <thead>
            <tr>
              <Th>{t('quality.week')}</Th>
              <Th className="text-right">{t('quality.corrected')}</Th>
              <Th className="text-right">{t('quality.atMostSure')}</Th>
              <Th className="text-right">{t('quality.n')}</Th>
            </tr>
          </thead>
          <tbody>
            {data.weeks.map(({ monday, checks }) => (
              <Tr key={monday}>
                <Td>{formatShortDay(monday)}</Td>
                <Td className="text-right">{formatShare(checks.corrected / checks.checked)}</Td>
                <Td className="text-right">{checks.at_most === null ? '–' : formatShare(checks.at_most)}</Td>
                <Td className="text-right">{formatNumber(checks.checked)}</Td>
              </Tr>
            ))}
          </tbody>
        </Table>
      ) : (
        <BoundChart weeks={weeks} marks={marksOf(data, weeks)} formatValue={formatShare} />
      )}
    </section>
  );
}

/** The changes of the schema between the weeks that are shown. */
function marksOf({ versions }: TableQuality, weeks: readonly { monday: number }[]) {
  return versions.slice(1).flatMap(({ number, created_at: createdAt }) => {
    const at = Date.parse(createdAt);
    const index = weeks.findLastIndex((one) => one.monday <= at);
    if (index === -1 || at > weeks.at(-1)!.monday + WEEK_MS) return [];
    const place = Math.min(index + (at - weeks[index]!.monday) / WEEK_MS - 0.5, weeks.length - 1);
    return [{ id: String(number), at: Math.max(place, 0), label: t('quality.schemaVersion', { number }) }];
  });
}

function Columns({ data, view }: { data: TableQuality; view: QualityView }) {
  const most = Math.max(...data.columns.map((one) => one.checks.at_most ?? 0).filter((bound) => bound < 1), 0.001);
  return (
    <section aria-labelledby="by-column" className="grid gap-2">
      <h2 id="by-column" className="text-sm font-semibold">
        {t('quality.byColumn')}
      </h2>
      <Table label={t('quality.byColumn')}>
        <thead>
          <tr>
            <Th className="pl-0">{t('quality.column')}</Th>
            <Th colSpan={2}>{t('quality.filled')}</Th>
            <Th className="text-right">{t('quality.confirmed')}</Th>
            <Th className="text-right">{t('quality.corrected')}</Th>
            <Th className="text-right">{t('quality.found')}</Th>
            <Th colSpan={2}>{t('quality.atMostSure')}</Th>
            <Th className="pr-0 text-right">{t('quality.n')}</Th>
          </tr>
        </thead>
        <tbody>
          {data.columns.map(({ path, title, filled, checks, found }) => {
            const column = { path, title: title === null ? pathLabel(path) : visibleText(title) };
            const part = filled === null || data.documents === 0 ? null : filled / data.documents;
            const counted = (show: CountedKind, count: number) => (
              <CountButton show={show} count={count} column={column}>
                {formatNumber(count)}
              </CountButton>
            );
            return (
              <Tr key={path} aria-selected={view.column === path}>
                <Td className="max-w-40 truncate pl-0" title={path}>
                  {column.title}
                </Td>
                <Td className="w-20">{part !== null && <ShareBar share={part} />}</Td>
                <Td className={cn(part !== null && part < 0.9 ? 'font-medium text-need' : 'text-muted-foreground')}>
                  <CountButton show="filled" count={filled ?? 0} column={column}>
                    {part === null ? '–' : formatShare(part)}
                  </CountButton>
                </Td>
                <Td className="text-right">{counted('confirmed', checks.checked - checks.corrected)}</Td>
                <Td className="text-right">{counted('corrected', checks.corrected)}</Td>
                <Td className="text-right">{counted('found', found)}</Td>
                <Td className="w-40">
                  {checks.checked > 0 && (
                    <ShareBar share={checks.corrected / checks.checked / most} bound={(checks.at_most ?? 0) / most} />
                  )}
                </Td>
                <Td>{checks.at_most === null ? '–' : formatShare(checks.at_most)}</Td>
                <Td className="pr-0 text-right text-muted-foreground">{counted('checked', checks.checked)}</Td>
              </Tr>
            );
          })}
        </tbody>
      </Table>
    </section>
  );
}

interface ValuesProps {
  schemaId: string;
  period: Period;
  column: string | undefined;
  show: CountedKind;
}

/** The values that the chosen number counts. */
function Values({ schemaId, period, column, show }: ValuesProps) {
  const updateSearch = useUpdateSearch<QualityView>();
  const { data, isError, error, refetch } = useQuery(countedValuesQuery(schemaId, period, show, column));
  const schema = schemaFields(useQuery(schemaQuery(schemaId)).data?.schema ?? {});
  let list: ReactNode = null;
  if (isError) list = <ErrorNotice error={error} onRetry={() => void refetch()} />;
  else if (data?.items.length === 0)
    list = (
      <p className="text-muted-foreground">{t(show === 'corrected' ? 'quality.noCorrections' : 'quality.noValues')}</p>
    );
  else if (data !== undefined) {
    list = (
      <ul className="grid gap-2.5">
        {data.items.map((one) => (
          <ValueCard
            key={`${one.extraction_id} ${one.path}`}
            value={one}
            label={pathLabel(one.path, schema)}
            format={valueFormat(one, schema, data.items)}
          />
        ))}
      </ul>
    );
  }
  const count = data?.items.length ?? 0;
  return (
    <section
      aria-labelledby="values"
      className="border-border bg-sidebar p-4 max-xl:border-t xl:overflow-y-auto xl:border-l">
      <div className="mb-3 flex min-h-7 items-center gap-2">
        <h2 id="values" className="text-sm font-semibold">
          {t(`quality.shown.${show}`)}
        </h2>
        <span className="text-muted-foreground">{`${formatNumber(count)}${count === MOST_VALUES ? '+' : ''}`}</span>
        {(column !== undefined || show !== 'corrected') && (
          <Button icon={X} onClick={() => updateSearch(({ column: _, show: __, ...search }) => search)}>
            {column === undefined ? t('quality.shown.corrected') : pathLabel(column, schema)}
          </Button>
        )}
      </div>
      {list}
    </section>
  );
}

interface CardProps {
  value: CountedValue;
  label: string;
  format: (text: string) => string;
}

function ValueCard({ value, label, format }: CardProps) {
  const { document_id: documentId, filename, path, was, now, checked_by: by, checked_at: at } = value;
  return (
    <li className="grid gap-1.5 rounded-lg border border-border bg-card p-3">
      <div className="flex items-center gap-2 text-xs">
        <span className="truncate font-semibold">{label}</span>
        <Link
          to="/documents/$documentId"
          params={{ documentId }}
          search={{ extraction: value.extraction_id, field: path }}
          className="min-w-0 flex-1 truncate text-muted-foreground">
          {visibleText(filename)}
        </Link>
        {by !== null && <Avatar id={by} isAlone />}
        {at !== null && (
          <time dateTime={at} className="whitespace-nowrap text-muted-foreground">
            {formatTime(at)}
          </time>
        )}
      </div>
      {value.page !== null && value.box !== null && (
        <Crop documentId={documentId} page={value.page} box={value.box as unknown as Box} width={480} />
      )}
      {was === null || was === now ? (
        <p className="truncate font-medium">{now === null ? '–' : format(now)}</p>
      ) : (
        <p className="flex min-w-0 items-center gap-2">
          <del className="min-w-0 truncate text-muted-foreground">
            <span className="sr-only">{t('quality.was')} </span>
            {format(was)}
          </del>
          <ArrowRight size={13} className="shrink-0 text-muted-foreground" aria-hidden="true" />
          <ins className="min-w-0 truncate font-medium no-underline">
            <span className="sr-only">{t('quality.now')} </span>
            {now === null ? t('quality.removed') : format(now)}
          </ins>
        </p>
      )}
    </li>
  );
}
