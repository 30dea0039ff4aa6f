/** What the organisation stores and spends, of the most that it may, and its usage by month. */

import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { ShareBar } from '../components/charts/ShareBar';
import { Card } from '../components/ui/Card';
import { ErrorNotice } from '../components/ui/Notice';
import { Progress } from '../components/ui/Progress';
import { Table, Td, Th, Tr } from '../components/ui/Table';
import { storageFormats, useStorage } from '../documents/StorageUse';
import { overviewQuery } from '../home/overviewQueries';
import { periodOf, periodView } from '../home/period';
import { formatCost, formatMonth, formatNumber } from '../shared/format';
import { t } from '../shared/i18n';
import { monthsQuery } from './settingsQueries';

export function Usage() {
  const storage = useStorage();
  const { data, isError, error, refetch } = useQuery(overviewQuery(periodOf({})));
  const runs = data?.credit?.max_concurrent_runs;
  return (
    <>
      <Card>
        <dl className="grid gap-4 sm:grid-cols-3">
          {storage.map(({ kind, used, max }) => (
            <Figure
              key={kind}
              label={t(`settings.storage.${kind}Meter`)}
              {...{ used, max }}
              format={storageFormats[kind]}
            />
          ))}
          {data !== undefined && (
            <Figure
              label={t('settings.usage.spent')}
              used={data.credit?.spent_usd ?? data.cost.total.cost_usd}
              max={data.credit?.max_usd ?? null}
              format={formatCost}
              hint={runs == null ? undefined : t('settings.usage.concurrentRuns', { count: runs })}
            />
          )}
        </dl>
        {isError && <ErrorNotice error={error} onRetry={() => void refetch()} />}
      </Card>
      <Months />
    </>
  );
}

interface FigureProps {
  label: string;
  used: number;
  max: number | null;
  format: (amount: number) => string;
  hint?: string | undefined;
}

function Figure({ label, used, max, format, hint }: FigureProps) {
  return (
    <div className="border-border sm:not-first:border-l sm:not-first:pl-4">
      <dt className="text-xs text-muted-foreground">{label}</dt>
      <dd className="text-3xl font-semibold">{format(used)}</dd>
      <dd className="text-xs text-muted-foreground">
        {max !== null && max > 0 && <Progress className="my-1" max={max} value={Math.min(used, max)} label={label} />}
        {max === null ? t('settings.usage.noLimit') : t('settings.usage.of', { limit: format(max) })}
        {hint !== undefined && ` · ${hint}`}
      </dd>
    </div>
  );
}

/** The cost of each month with usage, the newest first. A month opens on Home: its days, tables, models and quality. */
function Months() {
  const { data: months = [] } = useQuery(monthsQuery);
  if (months.length === 0) return null;
  const most = Math.max(...months.map((one) => one.cost ?? 0));
  return (
    <Card title={t('settings.usage.byMonth')}>
      <Table isFlush label={t('settings.usage.byMonth')}>
        <thead>
          <tr>
            <Th>{t('settings.usage.month')}</Th>
            <Th className="text-right">{t('runs.columns.tokens')}</Th>
            <Th className="text-right sm:w-1/2">{t('runs.columns.cost')}</Th>
          </tr>
        </thead>
        <tbody>
          {months.map(({ month, tokens, cost }) => (
            <Tr key={month}>
              <Td>
                <Link to="/home" search={periodView(periodOf({ day: `${month}-01` }))} className="text-link">
                  {formatMonth(`${month}-01`)}
                </Link>
              </Td>
              <Td className="text-right">{formatNumber(tokens)}</Td>
              <Td className="font-medium">
                <span className="flex items-center justify-end gap-3">
                  {most > 0 && <ShareBar share={(cost ?? 0) / most} className="ml-6 flex-1 max-sm:hidden" />}
                  <span className="min-w-16 text-right">
                    {cost === null ? t('runs.costUnknown') : formatCost(cost)}
                  </span>
                </span>
              </Td>
            </Tr>
          ))}
        </tbody>
      </Table>
    </Card>
  );
}
