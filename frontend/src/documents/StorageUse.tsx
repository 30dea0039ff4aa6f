/** What the organisation stores of the most that it may: all of it in the settings, and a warning from 80 % on. */

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

function useStorage(): Use[] {
  const { data } = useQuery(storageQuery);
  if (data === undefined) return [];
  return [
    { kind: 'documents', used: data.documents, max: data.max_documents },
    { kind: 'bytes', used: data.bytes, max: data.max_bytes },
  ];
}

function textOf({ kind, used, max }: Use): string {
  const format = kind === 'bytes' ? formatBytes : formatNumber;
  if (max === null) return t(`settings.storage.${kind}`, { amount: format(used) });
  return t(`settings.storage.${kind}Of`, { amount: format(used), limit: format(max) });
}

export function StorageUse() {
  return (
    <>
      {useStorage().map((use) => (
        <div key={use.kind}>
          <p>{textOf(use)}</p>
          {use.max !== null && use.max > 0 && (
            <meter
              className="w-full"
              min={0}
              max={use.max}
              high={use.max * WARNED_FROM}
              value={use.used}
              aria-label={t(`settings.storage.${use.kind}Meter`)}
            />
          )}
        </div>
      ))}
    </>
  );
}

export function StorageWarning() {
  const near = useStorage().filter(({ used, max }) => max !== null && used >= max * WARNED_FROM);
  if (near.length === 0) return null;
  return (
    <Notice kind="unsure">
      <p>
        {near.map(textOf).join(' · ')}. {t('settings.storage.hint')}
      </p>
    </Notice>
  );
}
