/** The number of records of all tables, in the navigation bar. */

import { useQuery } from '@tanstack/react-query';
import { formatNumber } from '../shared/format';
import styles from './RecordsCount.module.css';
import { tablesQuery } from './tableQueries';

export function RecordsCount() {
  const { data = [] } = useQuery(tablesQuery);
  const count = data.reduce((sum, { records }) => sum + records, 0);
  return count > 0 ? <span className={styles.count}>{formatNumber(count)}</span> : null;
}
