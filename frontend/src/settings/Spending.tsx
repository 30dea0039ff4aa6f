/** The organisation's limits, and its cost of this month. Home has the cost of each month. */

import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { ErrorNotice } from '../components/ui/Notice';
import { overviewQuery } from '../home/overviewQueries';
import { periodOf } from '../home/period';
import { Card } from '../components/ui/Card';
import { Table, Td, Th, Tr } from '../components/ui/Table';
import { formatCost, formatMonth, formatNumber } from '../shared/format';
import { t } from '../shared/i18n';
import { monthsQuery } from './settingsQueries';

export function Spending() {
  const { data, isError, error, refetch } = useQuery(overviewQuery(periodOf({})));
  if (isError) return <ErrorNotice error={error} onRetry={() => void refetch()} />;
  if (data === undefined) return null;
  const { credit, cost } = data;
  const amount = formatCost(credit?.spent_usd ?? cost.total.cost_usd);
  const max = credit?.max_usd ?? null;
  return (
    <div>
      <p>
        {[
          max === null
            ? t('settings.usage.spent', { amount })
            : t('settings.usage.spentOf', { amount, limit: formatCost(max) }),
          max === null && t('settings.usage.noLimit'),
          credit?.max_concurrent_runs != null &&
            t('settings.usage.concurrentRuns', { count: credit.max_concurrent_runs }),
        ]
          .filter(Boolean)
          .join(' · ')}
      </p>
      {max !== null && max > 0 && (
        <meter
          className="w-full"
          min={0}
          max={max}
          high={max * 0.8}
          value={credit?.spent_usd ?? 0}
          aria-label={t('settings.usage.spentMeter')}
        />
      )}
    </div>
  );
}

/** The cost of each month with usage, the newest first. */
export function Months() {
  const { data: months = [] } = useQuery(monthsQuery);
  if (months.length === 0) return null;
  return (
    <Card
      title={t('settings.usage.byMonth')}
      actions={
        <Link to="/home" className="text-xs text-link">
          {t('settings.usage.months')}
        </Link>
      }>
      <Table label={t('settings.usage.byMonth')}>
        <thead>
          <tr>
            <Th>{t('settings.usage.month')}</Th>
            <Th className="text-right">{t('runs.columns.tokens')}</Th>
            <Th className="text-right">{t('runs.columns.cost')}</Th>
          </tr>
        </thead>
        <tbody>
          {months.map(({ month, tokens, cost }) => (
            <Tr key={month}>
              <Td>{formatMonth(`${month}-01`)}</Td>
              <Td className="text-right">{formatNumber(tokens)}</Td>
              <Td className="text-right">{cost === null ? t('runs.costUnknown') : formatCost(cost)}</Td>
            </Tr>
          ))}
        </tbody>
      </Table>
    </Card>
  );
}
