/** The organisation's usage this month by agent and model, and its spending limit. */

import { useQuery } from '@tanstack/react-query';
import type { Organisation, Used } from '../api/types';
import { agentName } from '../runs/toolText';
import { formatDays, formatDollars, formatNumber, visibleText } from '../shared/format';
import { t } from '../shared/i18n';
import { ErrorNotice } from '../components/ui/Notice';
import styles from './Settings.module.css';
import { usageQuery } from './settingsQueries';
import { summed } from './usage';

export function UsageTable({ organisation }: { organisation: Organisation }) {
  const usage = useQuery(usageQuery(organisation.id));
  if (usage.isError) return <ErrorNotice error={usage.error} onRetry={() => void usage.refetch()} />;
  if (usage.data === undefined) return null;
  const { credit, since, until } = usage.data;
  const rows = summed(usage.data.items as Used[]);
  return (
    <>
      <p>
        {[
          formatDays(since, until),
          credit === null && t('settings.usage.noLimit'),
          credit !== null &&
            (credit.max_usd === null
              ? t('settings.usage.spent', { amount: formatDollars(credit.spent_usd) })
              : t('settings.usage.spentOf', {
                  amount: formatDollars(credit.spent_usd),
                  limit: formatDollars(credit.max_usd),
                })),
          credit !== null &&
            credit.max_concurrent_runs !== null &&
            t('settings.usage.concurrentRuns', { count: credit.max_concurrent_runs }),
        ]
          .filter(Boolean)
          .join(' · ')}
      </p>
      {credit?.max_usd != null && credit.max_usd > 0 && (
        <meter
          className={styles.meter}
          min={0}
          max={credit.max_usd}
          high={credit.max_usd * 0.8}
          value={credit.spent_usd}
          aria-label={t('settings.usage.spentMeter')}
        />
      )}
      {rows.length === 0 ? (
        <p className="muted">{t('settings.usage.none')}</p>
      ) : (
        <table className={styles.table}>
          <thead>
            <tr>
              <th>{t('settings.usage.agent')}</th>
              <th>{t('settings.usage.model')}</th>
              <th className={styles.number}>{t('settings.usage.calls')}</th>
              <th className={`${styles.number} ${styles.second}`}>{t('settings.usage.tokensIn')}</th>
              <th className={`${styles.number} ${styles.second}`}>{t('settings.usage.tokensOut')}</th>
              <th className={styles.number}>{t('settings.usage.cost')}</th>
            </tr>
          </thead>
          <tbody>
            {rows.map((one) => (
              <tr key={`${one.agent} ${one.model}`}>
                <td>{agentName(one.agent)}</td>
                <td className="truncate">{visibleText(one.model)}</td>
                <td className={styles.number}>{formatNumber(one.messages)}</td>
                <td className={`${styles.number} ${styles.second}`}>{formatNumber(one.tokensIn)}</td>
                <td className={`${styles.number} ${styles.second}`}>{formatNumber(one.tokensOut)}</td>
                <td className={styles.number}>
                  {one.costUsd === null ? t('settings.usage.unknown') : formatDollars(one.costUsd)}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </>
  );
}
