/** Marks an extraction as reviewed, as it is now. */

import { useMutation, useQueryClient } from '@tanstack/react-query';
import { dataOf, api } from '../api/client';
import type { ChangedExtraction, Extraction } from '../api/types';
import { Button } from '../shared/Button';
import { t } from '../shared/i18n';
import { errorMessage } from '../shared/Notice';
import { toast } from '../shared/Toasts';
import { storeChanged } from './storeChanged';

export function useMarkReviewed(onDone?: () => void) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: async ({ id, version }: Pick<Extraction, 'id' | 'version'>) => {
      const params = { path: { extraction_id: id }, header: { 'if-match': `"${version}"` } };
      return (await dataOf(api.POST('/api/extractions/{extraction_id}/complete', { params }))) as ChangedExtraction;
    },
    onSuccess: (changed) => {
      storeChanged(queries, changed);
      onDone?.();
    },
    onError: (error) => toast(errorMessage(error), { urgent: true }),
  });
}

/** `open`: the number of values to review first: uncertain ones and suggestions. */
export function MarkReviewed({ extraction, open }: { extraction: Extraction; open: number }) {
  const mark = useMarkReviewed(() => toast(t('document.markedReviewed')));
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
