/** Marks an extraction as reviewed, as it is now. */

import { useMutation, useQueryClient } from '@tanstack/react-query';
import { dataOf, api } from '../api/client';
import type { ChangedExtraction, Extraction } from '../api/types';
import { Button } from '../shared/Button';
import { t } from '../shared/i18n';
import { errorMessage } from '../shared/Notice';
import { toast } from '../shared/Toasts';
import { storeChanged } from './storeChanged';

type Reviewable = Pick<Extraction, 'id' | 'version'>;

export function useMarkReviewed(onDone?: (before: Extraction) => void) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: async ({ id, version }: Extraction) => {
      const params = { path: { extraction_id: id }, header: { 'if-match': `"${version}"` } };
      return (await dataOf(api.POST('/api/extractions/{extraction_id}/complete', { params }))) as ChangedExtraction;
    },
    onSuccess: (changed, before) => {
      storeChanged(queries, changed);
      onDone?.(before);
    },
    onError: (error) => toast(errorMessage(error), { urgent: true }),
  });
}

/** Mark an extraction as not reviewed again. `status`: the one that it had before it was marked. */
export async function withdrawReview({ id, version }: Reviewable, status: Extraction['status']): Promise<ChangedExtraction> {
  const params = { path: { extraction_id: id }, query: { status }, header: { 'if-match': `"${version}"` } };
  return (await dataOf(api.DELETE('/api/extractions/{extraction_id}/complete', { params }))) as ChangedExtraction;
}

/** `open`: the number of values to review first: uncertain ones and suggestions. */
export function MarkReviewed({ extraction, open }: { extraction: Extraction; open: number }) {
  const queries = useQueryClient();
  const mark = useMarkReviewed((before) => {
    const undo = () => withdrawReview(before, before.status).then((changed) => storeChanged(queries, changed));
    const act = () => void undo().catch((error: unknown) => toast(errorMessage(error), { urgent: true }));
    toast(t('document.markedReviewed'), { seconds: 12, action: { label: t('common.undo'), act } });
  });
  return (
    <Button
      disabled={mark.isPending || open > 0}
      title={open > 0 ? t('document.decideFirst') : undefined}
      onClick={() => mark.mutate(extraction)}
    >
      {t('document.markReviewed')}
    </Button>
  );
}
