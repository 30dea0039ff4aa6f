/** A call that waits for a person: what it would change, and their word on it. */

import { useMutation } from '@tanstack/react-query';
import { Fragment } from 'react';
import { decideCall } from '../api/runs';
import { Button } from '../shared/Button';
import { Failure } from '../shared/Notice';
import styles from './RunPanel.module.css';
import type { Approval } from './runReducer';

interface Props {
  runId: string;
  call: Approval;
  onDecided: () => void;
}

export function ApprovalCard({ runId, call, onDecided }: Props) {
  const decide = useMutation({
    mutationFn: (approved: boolean) => decideCall(runId, call.call_id, approved ? { approved: true } : { approved: false }),
    onSuccess: onDecided,
  });
  return (
    <section className={styles.approval} aria-label="Waits for your decision">
      <h3>{call.message}</h3>
      <dl className={styles.changes}>
        {(call.changes ?? []).map((change) => (
          <Fragment key={change.path}>
            <dt>
              <code>{change.path}</code>
            </dt>
            <dd className={styles.old}>{change.added ? '' : asText(change.old)}</dd>
            <dd aria-label="becomes">→</dd>
            <dd>{change.removed ? 'nothing' : asText(change.new)}</dd>
          </Fragment>
        ))}
      </dl>
      {decide.isError && <Failure error={decide.error} />}
      <div className={styles.buttons}>
        <Button kind="main" disabled={decide.isPending} onClick={() => decide.mutate(true)}>
          Approve
        </Button>
        <Button disabled={decide.isPending} onClick={() => decide.mutate(false)}>
          Reject
        </Button>
      </div>
    </section>
  );
}

/** (The service has spelt out what nobody sees.) */
function asText(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value ?? null);
}
