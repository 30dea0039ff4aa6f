/** What the organisation stores, of the most that it may. Documents warn from 80 % on. */

import { queryOptions, useQuery } from '@tanstack/react-query';
import { api } from '../api/client';
import { Notice } from '../components/ui/Notice';
import { formatBytes, formatNumber } from '../shared/format';
import { t } from '../shared/i18n';

const storageQuery = queryOptions({
  queryKey: ['usage', 'storage'],
  queryFn: async ({ signal }) => (await api.get('/api/usage', { signal })).storage,
  staleTime: 30_000,
});

const WARNED_FROM = 0.8;

interface Use {
  kind: 'documents' | 'bytes';
  used: number;
  max: number | null;
}

export const storageFormats = { documents: formatNumber, bytes: formatBytes };

export function useStorage(): Use[] {
  const { data } = useQuery(storageQuery);
  if (data === undefined) return [];
  return [
    { kind: 'documents', used: data.documents, max: data.max_documents },
    { kind: 'bytes', used: data.bytes, max: data.max_bytes },
  ];
}

export function StorageWarning() {
  const near = useStorage().filter(({ used, max }) => max !== null && used >= max * WARNED_FROM);
  if (near.length === 0) return null;
  const texts = near.map(({ kind, used, max }) => {
    const format = storageFormats[kind];
    return t(`settings.storage.${kind}Of`, { amount: format(used), limit: format(max ?? 0) });
  });
  return (
    <Notice kind="unsure">
      <p>
        {texts.join(' · ')}. {t('settings.storage.hint')}
      </p>
    </Notice>
  );
}
