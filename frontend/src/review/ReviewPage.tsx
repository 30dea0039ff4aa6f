/** Reviewing uncertain values one after the other, across documents: Enter confirms or saves and moves on. */

import { useQuery } from '@tanstack/react-query';
import { getRouteApi, Link } from '@tanstack/react-router';
import { useMemo } from 'react';
import type { Box } from '../api/types';
import { violationText } from '../document/fields/violationText';
import { marksByPage } from '../document/fields/fieldTree';
import { proposalOf } from '../document/fields/proposals';
import { PageViewer } from '../document/viewer/PageViewer';
import { waitingQuery } from '../approvals/approvalQueries';
import { countQuery, documentQuery } from '../documents/documentQueries';
import { useCanWrite } from '../session/role';
import { Button } from '../components/ui/Button';
import { visibleText } from '../shared/format';
import { t } from '../shared/i18n';
import { Loading } from '../components/ui/Loading';
import { EmptyState } from '../components/ui/EmptyState';
import { ErrorNotice } from '../components/ui/Notice';
import { useShortcut } from '../shared/shortcuts/useShortcut';
import { perMinute } from './fieldsToReview';
import { FinishCard } from './FinishCard';
import { ReviewCard } from './ReviewCard';
import styles from './Review.module.css';
import { evidenceOf, useReview } from './useReview';

const reviewRoute = getRouteApi('/review');

const UNDO = { id: 'review.undo', keys: 'Mod+z' } as const;

export function ReviewPage() {
  const review = useReview(reviewRoute.useSearch().extraction);
  const { extraction, field, summary, rows } = review;
  const canWrite = useCanWrite();
  const document = useQuery({ ...documentQuery(summary?.document_id ?? ''), enabled: summary !== undefined });
  const marks = useMemo(() => marksByPage(rows), [rows]);
  useShortcut(UNDO, review.undo, review.canUndo);
  if (review.queue.isError)
    return <ErrorNotice error={review.queue.error} onRetry={() => void review.queue.refetch()} />;
  if (review.error !== null) return <ErrorNotice error={review.error} />;
  const speed = perMinute(review.times);
  const progress = (
    <p className="muted" role="status">
      {[
        summary !== undefined && t('review.left', { count: review.left }),
        summary !== undefined && t('review.toGo', { count: review.documents }),
        speed !== null && t('review.perMinute', { speed: Math.round(speed) }),
      ]
        .filter(Boolean)
        .join(' · ')}
    </p>
  );
  const undo = review.canUndo && <Button onClick={review.undo}>{t('common.undo')}</Button>;
  if (summary !== undefined && extraction !== undefined && review.asksToFinish && document.data !== undefined) {
    return (
      <FinishCard
        key={extraction.id}
        filename={document.data.filename}
        isEmpty={!rows.some((row) => row.kind === 'leaf')}
        problems={review.errors.map((one) => violationText(one, review.schema))}
        isPending={review.isFinishing || !canWrite}
        onFinish={review.finish}
        onSkip={review.leave}>
        {progress}
        {undo}
      </FinishCard>
    );
  }
  if (summary === undefined || extraction === undefined || field === undefined || document.data === undefined) {
    return review.isLoaded && summary === undefined ? (
      <EmptyState title={t('review.done')}>
        <p>{t('review.doneHint')}</p>
        <Elsewhere />
        {progress}
        {undo}
        <Button onClick={review.again}>{t('common.refresh')}</Button>
        <p>
          <Link to="/review/by-field">{t('review.byField')}</Link>
        </p>
        <p>
          <Link to="/inbox">{t('review.tryInbox')}</Link>
        </p>
      </EmptyState>
    ) : (
      <Loading />
    );
  }
  const evidence = evidenceOf(field);
  const page = evidence?.page ?? 1;
  const at = rows.indexOf(field) + 1;
  return (
    <div className={styles.page}>
      <h1 className="sr-only">{t('areas.review')}</h1>
      <PageViewer
        key={extraction.document_id}
        documentId={extraction.document_id}
        pages={document.data.page_count ?? 0}
        marks={marks}
        chosen={field.path}
        place={{ page, box: evidence?.boxes?.[0] as Box | undefined, at }}
        onChoose={() => undefined}
      />
      <div className={styles.side}>
        <Link to="/inbox">{t('review.tryInbox')}</Link>
        <div className={styles.of}>
          <Link
            to="/documents/$documentId"
            params={{ documentId: extraction.document_id }}
            search={{ extraction: extraction.id, field: field.path }}
            className="truncate">
            {visibleText(document.data.filename)}
          </Link>
          {undo}
        </div>
        <div className={styles.of}>
          {progress}
          <Link
            to="/review/by-field"
            search={{
              path: field.path,
              ...(extraction.document_type !== null && { document_type: extraction.document_type }),
            }}>
            {t('review.acrossDocuments')}
          </Link>
        </div>
        <fieldset className={styles.plain} disabled={!canWrite}>
          <ReviewCard
            key={`${extraction.id} ${field.path}`}
            documentId={extraction.document_id}
            field={field}
            schema={review.schema}
            ruleFixes={review.ruleFixes}
            proposal={field.reason === 'proposal' ? proposalOf(extraction.proposals, field.path) : undefined}
            onConfirm={() => review.confirm(field.path)}
            onUndo={review.canUndo ? review.undo : undefined}
            onWrite={(value, path = field.path) => review.write(path, value)}
            onProposal={(accepted) => review.decideProposal(field.path, accepted)}
            onSkip={() => review.skip(field.path)}
          />
        </fieldset>
      </div>
    </div>
  );
}

/** Links to other things that need attention. */
function Elsewhere() {
  const approvals = useQuery(waitingQuery).data?.items.length ?? 0;
  const suggestions = useQuery(countQuery('proposed')).data ?? 0;
  const failed = useQuery(countQuery('failed')).data ?? 0;
  if (approvals + suggestions + failed === 0) return null;
  return (
    <ul aria-label={t('review.elsewhere')}>
      {approvals > 0 && (
        <li>
          <Link to="/approvals">{t('review.approvals', { count: approvals })}</Link>
        </li>
      )}
      {suggestions > 0 && (
        <li>
          <Link to="/documents" search={{ status: 'proposed' }}>
            {t('review.suggestions', { count: suggestions })}
          </Link>
        </li>
      )}
      {failed > 0 && (
        <li>
          <Link to="/documents" search={{ status: 'failed' }}>
            {t('review.failed', { count: failed })}
          </Link>
        </li>
      )}
    </ul>
  );
}
