/** What the organisation has used this month, by agent and model, and what it may spend. */

import { useQuery } from '@tanstack/react-query';
import type { Organisation, Used } from '../api/types';
import { count, dollars, visibleText } from '../shared/format';
import { ErrorNotice } from '../shared/Notice';
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
        {since} to {until}
        {credit !== null && (
          <>
            {' · '}
            {dollars(credit.spent_usd)} spent this month{credit.max_usd !== null && ` of ${dollars(credit.max_usd)}`}
            {credit.max_concurrent_runs !== null && ` · at most ${count(credit.max_concurrent_runs, 'run')} at once`}
          </>
        )}
        {credit === null && ' · no limit is set'}
      </p>
      {credit?.max_usd != null && credit.max_usd > 0 && (
        <meter className={styles.meter} min={0} max={credit.max_usd} high={credit.max_usd * 0.8} value={credit.spent_usd} aria-label="Spent of the limit" />
      )}
      {rows.length === 0 ? (
        <p className="muted">No model has answered yet.</p>
      ) : (
        <table className={styles.table}>
          <thead>
            <tr>
              <th>Agent</th>
              <th>Model</th>
              <th className={styles.number}>Answers</th>
              <th className={`${styles.number} ${styles.second}`}>Tokens in</th>
              <th className={`${styles.number} ${styles.second}`}>Tokens out</th>
              <th className={styles.number}>Cost</th>
            </tr>
          </thead>
          <tbody>
            {rows.map((one) => (
              <tr key={`${one.agent} ${one.model}`}>
                <td>{one.agent}</td>
                <td className="truncate">{visibleText(one.model)}</td>
                <td className={styles.number}>{one.messages.toLocaleString()}</td>
                <td className={`${styles.number} ${styles.second}`}>{one.tokensIn.toLocaleString()}</td>
                <td className={`${styles.number} ${styles.second}`}>{one.tokensOut.toLocaleString()}</td>
                <td className={styles.number}>{one.costUsd === null ? 'not known' : dollars(one.costUsd)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </>
  );
}
