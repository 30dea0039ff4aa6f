/** A number beside a name; nothing for 0. */

import { formatNumber } from './format';
import styles from './CountBadge.module.css';

export function CountBadge({ count, isMore = false }: { count: number; isMore?: boolean | undefined }) {
  if (count === 0) return null;
  return (
    <>
      {' '}
      <span className={styles.number}>
        {formatNumber(count)}
        {isMore ? '+' : ''}
      </span>
    </>
  );
}
