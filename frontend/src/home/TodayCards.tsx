/** What needs a person, what was done today, and what is being read. */

import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { CircleHelp, type LucideIcon, Plus, ShieldCheck, Sparkles, Table2, TriangleAlert } from 'lucide-react';
import type { DoneOnDay } from '../api/types';
import { Button, buttonClass } from '../components/ui/Button';
import { Card } from '../components/ui/Card';
import { cn } from '../components/ui/cn';
import { ErrorNotice } from '../components/ui/Notice';
import { Progress } from '../components/ui/Progress';
import { Skeleton } from '../components/ui/Skeleton';
import { DAY_MS, isoDay, formatDuration, formatNumber, formatShortDay, visibleText } from '../shared/format';
import { t } from '../shared/i18n';
import { chooseFiles } from '../documents/DropTarget';
import { useCanWrite } from '../session/role';
import { inboxCountsQuery, total } from '../inbox/inboxQueries';
import { workQuery } from './overviewQueries';

const KINDS = [
  { kind: 'value', icon: CircleHelp, tone: 'text-need-dot' },
  { kind: 'approval', icon: ShieldCheck, tone: 'text-link' },
  { kind: 'suggestion', icon: Sparkles, tone: 'text-link' },
  { kind: 'failed', icon: TriangleAlert, tone: 'text-bad' },
] as const;

export function TodayCards() {
  return (
    <div className="grid gap-4 lg:grid-cols-2 xl:grid-cols-[5fr_4fr_4fr]">
      <NeedCard />
      <DoneCard />
      <ReadingCard />
    </div>
  );
}

function NeedCard() {
  const { data: counts, error, refetch } = useQuery(inboxCountsQuery);
  const all = total(counts);
  return (
    <Card label={t('home.need.title')} className="grid content-start gap-4 sm:grid-cols-[auto_minmax(0,1fr)] sm:gap-10">
      {error !== null ? (
        <ErrorNotice error={error} onRetry={() => void refetch()} />
      ) : (
        <>
          <div className="flex flex-col justify-between gap-4">
            <p className="text-muted-foreground">
              <span className="block text-4xl font-semibold text-foreground">
                {all === undefined ? '–' : formatNumber(all.count)}
                {all?.is_more === true && '+'}
              </span>
              {t('home.need.title')}
            </p>
            {all !== undefined && all.count > 0 && (
              <Link to="/inbox" className={cn(buttonClass({ kind: 'main' }), 'self-start')}>
                {t('home.need.start')}
              </Link>
            )}
          </div>
          {all?.count === 0 ? (
            <p className="self-center text-muted-foreground">{t('home.need.none')}</p>
          ) : (
            <ul className="grid content-start gap-1">
              {KINDS.map((one) => (
                <Kind key={one.kind} {...one} count={counts?.[one.kind]} />
              ))}
            </ul>
          )}
        </>
      )}
    </Card>
  );
}

interface KindProps {
  kind: (typeof KINDS)[number]['kind'];
  icon: LucideIcon;
  tone: string;
  count: { count: number; is_more: boolean } | undefined;
}

function Kind({ kind, icon: Sign, tone, count }: KindProps) {
  if (count === undefined || count.count === 0) return null;
  const number = `${formatNumber(count.count)}${count.is_more ? '+' : ''}`;
  return (
    <li>
      <Link
        to="/inbox"
        search={{ kind }}
        className="flex min-h-7 items-center gap-2 rounded-md px-2 text-foreground no-underline hover:bg-hover">
        <Sign size={15} strokeWidth={1.75} className={tone} aria-hidden="true" />
        {t(`home.need.${kind}`, { count: count.count, number })}
      </Link>
    </li>
  );
}

const answers = (day: DoneOnDay) => day.confirmed + day.corrected + day.found + day.absent;

function DoneCard() {
  const { data, isError, error, refetch } = useQuery(workQuery);
  if (isError) {
    return (
      <Card label={t('home.done.title')}>
        <ErrorNotice error={error} onRetry={() => void refetch()} />
      </Card>
    );
  }
  const day = data?.done.find((one) => one.day === data.today);
  const parts = [
    { key: 'confirmed', count: day?.confirmed ?? 0, tone: 'bg-primary' },
    { key: 'corrected', count: day?.corrected ?? 0, tone: 'bg-primary/60' },
    { key: 'found', count: day?.found ?? 0, tone: 'bg-primary/40' },
    { key: 'absent', count: day?.absent ?? 0, tone: 'bg-primary-soft' },
  ] as const;
  const total = day === undefined ? 0 : answers(day);
  const each = data !== undefined && data.work.gaps > 0 ? data.work.seconds / data.work.gaps : null;
  return (
    <Card label={t('home.done.title')} className="flex flex-col justify-between gap-4">
      <div className="flex items-end justify-between gap-6">
        <p className="text-muted-foreground">
          <span className="block text-4xl font-semibold text-foreground">
            {data === undefined ? '–' : formatNumber(total)}
          </span>
          {t('home.done.title')}
        </p>
        {data !== undefined && <TenDays done={data.done} today={data.today} />}
      </div>
      <div>
        {total > 0 && (
          <div aria-hidden="true" className="flex h-1.5 gap-px overflow-hidden rounded-full">
            {parts.map((one) => (
              <span key={one.key} className={one.tone} style={{ width: `${(one.count / total) * 100}%` }} />
            ))}
          </div>
        )}
        <ul className="mt-2 flex flex-wrap gap-x-5 gap-y-1 text-xs text-muted-foreground">
          {parts
            .filter((one) => one.count > 0)
            .map((one) => (
              <li key={one.key}>{t(`home.done.${one.key}`, { number: formatNumber(one.count) })}</li>
            ))}
          {(day?.reviewed_documents ?? 0) > 0 && <li>{t('home.done.reviewed', { count: day!.reviewed_documents })}</li>}
          {each !== null && each >= 1 && (
            <li>{t('home.done.each', { time: formatDuration(Math.round(each) * 1000) })}</li>
          )}
          {data !== undefined && total === 0 && (day?.reviewed_documents ?? 0) === 0 && <li>{t('home.done.none')}</li>}
        </ul>
      </div>
    </Card>
  );
}

/** The answers of the last ten days. */
function TenDays({ done, today }: { done: readonly DoneOnDay[]; today: string }) {
  const days = Array.from({ length: 10 }, (_, index) => isoDay(Date.parse(today) - (9 - index) * DAY_MS));
  const counts = days.map((day) => {
    const found = done.find((one) => one.day === day);
    return found === undefined ? 0 : answers(found);
  });
  const most = Math.max(...counts, 1);
  return (
    <ol className="flex h-14 items-end gap-1" aria-label={t('home.done.lastDays')}>
      {days.map((day, index) => (
        <li
          key={day}
          title={`${formatShortDay(day)}: ${formatNumber(counts[index]!)}`}
          className={cn('min-h-px w-3 rounded-t-xs', day === today ? 'bg-primary' : 'bg-primary-soft')}
          style={{ height: `${(counts[index]! / most) * 100}%` }}>
          <span className="sr-only">
            {formatShortDay(day)}: {formatNumber(counts[index]!)}
          </span>
        </li>
      ))}
    </ol>
  );
}

function ReadingCard() {
  const canWrite = useCanWrite();
  const { data, isError } = useQuery(workQuery);
  if (isError) return null; // said by the card beside it
  const isIdle = data !== undefined && data.filling.length === 0 && data.reading === 0;
  return (
    <Card title={t('home.reading.title')} className="flex flex-col max-xl:lg:col-span-2">
      {data === undefined && <Skeleton className="w-40" />}
      {isIdle && (
        <div className="grid flex-1 content-between justify-items-start gap-4">
          <p className="text-muted-foreground">{t('home.reading.none')}</p>
          {canWrite && (
            <Button icon={Plus} onClick={chooseFiles}>
              {t('stacks.addDocuments')}
            </Button>
          )}
        </div>
      )}
      <ul className="grid gap-3">
        {data?.filling.map((one) => (
          <li key={one.stack_id} className="grid gap-1.5">
            <div className="flex items-center gap-2">
              <Table2 size={15} strokeWidth={1.75} className="text-muted-foreground" aria-hidden="true" />
              <Link
                to="/tables/$tableId"
                params={{ tableId: one.stack_id }}
                className="min-w-0 flex-1 truncate text-foreground no-underline hover:underline">
                {visibleText(one.name)}
              </Link>
              <span className="text-xs text-muted-foreground">
                {t('home.reading.progress', { done: formatNumber(one.done), total: formatNumber(one.total) })}
              </span>
            </div>
            <Progress value={one.done} max={Math.max(one.total, 1)} label={visibleText(one.name)} />
          </li>
        ))}
        {data !== undefined && data.reading > 0 && (
          <li>
            <Link to="/documents" search={{ status: 'extracting' }} className="text-link">
              {t(data.filling.length > 0 ? 'home.reading.more' : 'common.documents', { count: data.reading })}
            </Link>
          </li>
        )}
      </ul>
    </Card>
  );
}
