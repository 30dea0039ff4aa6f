/** Home: what needs a person, what it cost and how good it was, and how to build with it. */

import { useQuery } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { cn } from '../components/ui/cn';
import { Skeleton } from '../components/ui/Skeleton';
import { meQuery } from '../session/config';
import { tablesQuery } from '../records/tablesQuery';
import { useCanWrite } from '../session/role';
import { formatLongDay, visibleText } from '../shared/format';
import { t } from '../shared/i18n';
import { BuildCards } from './BuildCards';
import { periodOf } from './period';
import { PeriodSection } from './PeriodSection';
import { TodayCards } from './TodayCards';

const homeRoute = getRouteApi('/home');

export function HomePage() {
  const view = homeRoute.useSearch();
  const canWrite = useCanWrite();
  // Nothing was read into a table yet: how to begin comes first.
  const tables = useQuery(tablesQuery);
  const isStart = canWrite && tables.data?.length === 0;
  return (
    <div className="min-h-full bg-background">
      <div className="mx-auto grid max-w-[87.5rem] gap-6 p-4 sm:px-6 sm:py-4">
        <div className="-mb-2 flex min-h-8 flex-wrap items-baseline gap-x-3 gap-y-1">
          <h1 className="text-xl font-semibold">
            <Greeting />
          </h1>
          <p className="text-muted-foreground">{formatLongDay(Date.now())}</p>
        </div>
        {tables.isPending && (
          <div aria-busy="true" className="grid gap-4 lg:grid-cols-3">
            {['h-44', 'h-44', 'h-44', 'h-72', 'h-72', 'h-72'].map((height, at) => (
              <Skeleton key={at} className={cn('rounded-lg!', height)} />
            ))}
          </div>
        )}
        {!isStart && !tables.isPending && (
          <>
            <TodayCards />
            <PeriodSection period={periodOf(view)} />
          </>
        )}
        {canWrite && !tables.isPending && <BuildCards isStart={isStart} />}
      </div>
    </div>
  );
}

function Greeting() {
  const me = useQuery(meQuery);
  const name = me.data?.email?.split(/[@.]/)[0];
  const hour = new Date().getHours();
  const part = hour < 12 ? 'morning' : hour < 18 ? 'day' : 'evening';
  if (name === undefined || name === '') return t(`home.greeting.${part}`);
  return t(`home.greeting.${part}Name`, { name: visibleText(name[0]!.toUpperCase() + name.slice(1)) });
}
