/** One question about a field of a document: the page with its boxes, the answers, and the other fields. */

import { useQueryClient } from '@tanstack/react-query';
import { useEffect, useMemo } from 'react';
import type { Box, Extraction } from '../api/types';
import { Button } from '../components/ui/Button';
import { cn } from '../components/ui/cn';
import { ErrorNotice } from '../components/ui/Notice';
import { Discussion } from '../document/Discussion';
import { extractionQuery } from '../fields/extractionQueries';
import { FieldState, FieldText } from '../fields/FieldState';
import type { Status } from '../fields/fieldStatus';
import { type FieldRow, type Leaf, marksByPage } from '../fields/fieldTree';
import { pathLabel } from '../fields/labels';
import type { Decisions } from '../fields/useDecisions';
import { violationText } from '../fields/violationText';
import { useMarkReviewed } from '../document/MarkReviewed';
import { answersQuery, questionPlace, useAnswers, withAnswers } from '../question/answers';
import { Question, QuestionToCome } from '../question/Question';
import { Crop } from '../viewer/Crop';
import { useCanWrite } from '../session/role';
import { t } from '../shared/i18n';
import { useShortcut } from '../shared/shortcuts/useShortcut';
import type { InboxItem } from './inboxQueries';
import { PageAndPanel } from '../document/PageAndPanel';
import { useStoredFields } from '../question/useStoredFields';

const REVIEWED = { id: 'inbox.reviewed', keys: 'Mod+Enter' } as const;
const MOST_FIELDS = 200;

interface Props {
  item: InboxItem;
  /** The number of questions about this extraction, with this one. */
  left: number;
  next: InboxItem | undefined;
  decisions: Decisions;
  onDecided: (path: string, saved: Promise<boolean>) => void;
  onReviewed: () => void;
}

export function QuestionPanel({ item, left, next, decisions, onDecided, onReviewed }: Props) {
  const id = item.extraction_id ?? '';
  const { path } = item;
  const queries = useQueryClient();
  const { stored, error, schema, errors, rows } = useStoredFields(id, { hasEmpty: true });
  const field = rows.find((one) => one.path === path);
  const { answers, isLoading } = useAnswers(stored, field);
  const marks = useMemo(() => withAnswers(marksByPage(rows), answers), [rows, answers]);
  const { page, box, chosen } = questionPlace(answers, field, rows);

  // The next question opens at once.
  useEffect(() => {
    if (next?.kind !== 'value' || next.extraction_id === null || next.path === null) return;
    const { extraction_id: nextId, path: nextPath } = next;
    void queries
      .ensureQueryData(extractionQuery(nextId))
      .then((one) => queries.prefetchQuery(answersQuery(nextId, one.version, nextPath)))
      .catch(() => undefined);
  }, [queries, next]);

  if (error !== null) return <ErrorNotice error={error} />;
  return (
    <PageAndPanel
      documentId={item.document_id}
      marks={marks}
      chosen={chosen}
      place={{ page, box, at: box === undefined ? 0 : 1 + rows.indexOf(field as FieldRow) }}>
      <div className="min-h-0 flex-1 overflow-y-auto p-4">
        {stored === undefined ? (
          <QuestionToCome
            path={path ?? ''}
            label={path === null ? t('inbox.incomplete') : pathLabel(path)}
            status={item.status === null ? undefined : ({ status: item.status, reason: item.reason } as Status)}
            hint={item.reason === 'missing' ? t('fields.short.missing') : undefined}
          />
        ) : field === undefined ? (
          <section className="rounded-lg border border-need-line p-3" aria-label={t('inbox.incomplete')}>
            {path === null && <p>{t('inbox.incompleteHint')}</p>}
            {(errors ?? []).map((one) => (
              <p key={one.code + one.message}>{violationText(one, schema)}</p>
            ))}
          </section>
        ) : (
          <Question
            extraction={stored}
            field={field}
            schema={schema}
            answers={answers}
            isLoading={isLoading}
            decisions={decisions}
            onDecided={onDecided}
            hint={field.reason === 'missing' ? t('fields.short.missing') : undefined}
            crop={
              box !== undefined && (
                <Crop className="mt-2 max-xl:hidden" documentId={item.document_id ?? ''} page={page} box={box as Box} />
              )
            }
          />
        )}
        {stored !== undefined && <AllFields rows={rows} chosen={path} />}
        {stored !== undefined && (
          <Discussion documentId={stored.document_id} path={path} className="mt-4 border-t border-line px-2 pt-2" />
        )}
      </div>
      {stored !== undefined && <Foot extraction={stored} left={left} onReviewed={onReviewed} />}
    </PageAndPanel>
  );
}

function AllFields({ rows, chosen }: { rows: readonly FieldRow[]; chosen: string | null }) {
  const leaves = rows.filter((one): one is Leaf => one.kind === 'leaf');
  const filled = leaves.filter((one) => one.value !== undefined && one.value !== null && one.value !== '').length;
  return (
    <section className="mt-4" aria-label={t('inbox.allFields')}>
      <h2 className="flex px-2 text-xs font-normal text-muted-foreground">
        <span className="flex-1">{t('inbox.allFields')}</span>
        {t('inbox.filled', { count: filled, all: leaves.length })}
      </h2>
      <dl className="mt-1">
        {leaves.slice(0, MOST_FIELDS).map((one) => (
          <div
            key={one.path}
            className={cn(
              'grid min-h-8 grid-cols-[minmax(0,7rem)_minmax(0,1fr)_auto] items-center gap-3 rounded-md px-2',
              one.path === chosen && 'bg-accent',
            )}>
            <dt className="truncate text-muted-foreground">{pathLabel(one.path)}</dt>
            <dd className="min-w-0">
              <FieldText row={one} />
            </dd>
            <dd>
              <FieldState row={one} className="max-w-40" />
            </dd>
          </div>
        ))}
      </dl>
    </section>
  );
}

interface FootProps {
  extraction: Extraction;
  left: number;
  onReviewed: () => void;
}

function Foot({ extraction, left, onReviewed }: FootProps) {
  const canWrite = useCanWrite();
  const finish = useMarkReviewed(onReviewed);
  const isOff = left > 0 || finish.isPending || !canWrite;
  useShortcut(REVIEWED, () => finish.mutate(extraction), !isOff);
  return (
    <div className="flex min-h-14 shrink-0 items-center gap-2 border-t border-border px-4">
      <p className="flex-1 text-xs text-muted-foreground">{t('inbox.left', { count: left })}</p>
      <Button
        size="md"
        keys="⌘↵"
        kind={left === 0 ? 'main' : 'plain'}
        disabled={isOff}
        onClick={() => finish.mutate(extraction)}>
        {t('document.markReviewed')}
      </Button>
    </div>
  );
}
