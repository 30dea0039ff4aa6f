/** All calls of the organisation that need approval, the newest first. */

import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import type { Run } from '../api/types';
import { documentQuery } from '../documents/documentQueries';
import { agentName } from '../runs/toolText';
import { formatAge, visibleText } from '../shared/format';
import { t } from '../shared/i18n';
import { Loading } from '../components/ui/Loading';
import { EmptyState } from '../components/ui/EmptyState';
import { ErrorNotice } from '../components/ui/Notice';
import { stackQuery } from '../stacks/stackQueries';
import { ApprovalCard } from './ApprovalCard';
import { LIMIT, waitingQuery } from './approvalQueries';
import styles from './Approvals.module.css';

export function ApprovalsPage() {
  const waiting = useQuery(waitingQuery);
  const runs = (waiting.data?.items ?? []).filter((run) => run.waits_for !== null);
  if (waiting.isError) return <ErrorNotice error={waiting.error} onRetry={() => void waiting.refetch()} />;
  return (
    <div className={styles.page}>
      <h1>{t('areas.approvals')}</h1>
      {waiting.isPending && <Loading />}
      {waiting.isSuccess && runs.length === 0 && (
        <EmptyState title={t('approvals.none')}>
          <p>{t('approvals.noneHint')}</p>
        </EmptyState>
      )}
      {runs.map((run, index) => (
        <article key={`${run.id} ${run.waiting_call ?? ''}`} className={styles.item}>
          <p className={styles.of}>
            <SubjectLink run={run} />
            <span>{agentName(run.agent)}</span>
            <span>{formatAge(run.created_at)}</span>
          </p>
          {run.waits_for !== null && (
            <ApprovalCard runId={run.id} call={run.waits_for} hasShortcuts={index === 0} onDecided={() => undefined} />
          )}
        </article>
      ))}
      {waiting.data?.next && <p className="muted">{t('common.latest', { count: LIMIT })}</p>}
    </div>
  );
}

function SubjectLink({ run }: { run: Run }) {
  const document = useQuery({ ...documentQuery(run.document_id ?? ''), enabled: run.document_id !== null });
  const stack = useQuery({ ...stackQuery(run.stack_id ?? ''), enabled: run.stack_id !== null });
  if (run.stack_id !== null) {
    return (
      <Link to="/stacks/$stackId" params={{ stackId: run.stack_id }}>
        {visibleText(stack.data?.name ?? t('areas.stacks'))}
      </Link>
    );
  }
  if (run.document_id === null) return <span>{t('approvals.allDocuments')}</span>;
  return (
    <Link
      to="/documents/$documentId"
      params={{ documentId: run.document_id }}
      search={run.extraction_id === null ? {} : { extraction: run.extraction_id }}>
      {visibleText(document.data?.filename ?? t('approvals.document'))}
    </Link>
  );
}
