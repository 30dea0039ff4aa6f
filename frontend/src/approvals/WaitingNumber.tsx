/** How many calls wait for a decision, beside the area's name. */

import { useQuery } from '@tanstack/react-query';
import styles from './WaitingNumber.module.css';
import { MOST, waitingQuery } from './approvalQueries';

export function WaitingNumber() {
  const waiting = useQuery(waitingQuery);
  const number = waiting.data?.items.length ?? 0;
  if (number === 0) return null;
  return (
    <>
      {' '}
      <span className={styles.number}>{waiting.data?.next ? `${MOST}+` : number}</span>
    </>
  );
}
