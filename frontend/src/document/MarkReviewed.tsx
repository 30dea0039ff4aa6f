/** Marks an extraction as reviewed, as it is now. */

import { useQueryClient } from '@tanstack/react-query';
import { Check } from 'lucide-react';
import { useState } from 'react';
import { atVersion } from '../api/atVersion';
import { api } from '../api/client';
import type { ChangedExtraction, Extraction } from '../api/types';
import { Button } from '../components/ui/Button';
import { t } from '../shared/i18n';
import { ReviewAnyway } from '../shared/ReviewAnyway';
import { useShortcut } from '../shared/shortcuts/useShortcut';
import { errorMessage } from '../components/ui/Notice';
import { toast } from '../components/ui/Toast';
import { commonLabel, openFields } from '../fields/fieldStatus';
import type { SchemaField } from '../fields/schemaFields';
import { storeChanged } from '../fields/storeChanged';
import { useChange } from '../shared/useChange';

const REVIEWED = { id: 'document.reviewed', keys: 'Mod+Enter', inInputs: true } as const;

type Reviewable = Pick<Extraction, 'id' | 'version'>;

export function useMarkReviewed(onDone?: (before: Extraction) => void) {
  const queries = useQueryClient();
  return useChange(
    [],
    ({ id, version }: Extraction) => api.post('/api/extractions/{extraction_id}/complete', atVersion(id, version)),
    (changed, before) => {
      storeChanged(queries, changed as ChangedExtraction);
      onDone?.(before);
    },
  );
}

/** Mark an extraction as not reviewed again. `status`: the one that it had before it was marked. */
export async function withdrawReview(
  { id, version }: Reviewable,
  status: Extraction['status'],
): Promise<ChangedExtraction> {
  const withdrawn = api.delete('/api/extractions/{extraction_id}/complete', {
    ...atVersion(id, version),
    query: { status },
  });
  return (await withdrawn) as ChangedExtraction;
}

/** Proposals must be decided first. What else a person has to look at is asked about, and accepted with the review. */
export function MarkReviewed({ extraction, schema }: { extraction: Extraction; schema: readonly SchemaField[] }) {
  const queries = useQueryClient();
  const [isAsking, setAsking] = useState(false);
  const mark = useMarkReviewed((before) => {
    const undo = () => withdrawReview(before, before.status).then((changed) => storeChanged(queries, changed));
    const act = () => void undo().catch((error: unknown) => toast(errorMessage(error), { urgent: true }));
    toast(t('document.markedReviewed'), { seconds: 12, action: { label: t('common.undo'), act } });
  });
  const isProposed = Object.values(extraction.statuses).some(({ reason }) => reason === 'proposal');
  const count = extraction.review_count;
  const isOff = mark.isPending || isProposed;
  const review = () => (count > 0 ? setAsking(true) : mark.mutate(extraction));
  useShortcut(REVIEWED, review, !isOff && !isAsking);
  return (
    <>
      <Button
        kind={count === 0 ? 'main' : 'plain'}
        className={count === 0 ? undefined : 'border-transparent bg-muted text-muted-foreground'}
        keys="⌘↵"
        disabled={isOff}
        title={isProposed ? t('document.decideFirst') : undefined}
        icon={Check}
        onClick={review}>
        <span className="max-sm:sr-only">{t('document.markReviewed')}</span>
      </Button>
      {isAsking && (
        <ReviewAnyway
          question={t('document.markOpen', { count })}
          open={openFields(
            Object.entries(extraction.statuses).map(([path, status]) => ({
              ...status,
              label: commonLabel(path, schema),
            })),
          )}
          onConfirm={() => mark.mutate(extraction)}
          onClose={() => setAsking(false)}
        />
      )}
    </>
  );
}
