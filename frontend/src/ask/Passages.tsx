/** The passages that have the words of a question. No model is asked. */

import { queryOptions, useQuery } from '@tanstack/react-query';
import { Search } from 'lucide-react';
import { api } from '../api/client';
import type { SearchHit } from '../api/types';
import { EmptyState } from '../components/ui/EmptyState';
import { Loading } from '../components/ui/Loading';
import { ErrorNotice, Notice } from '../components/ui/Notice';
import type { SourceLocation } from '../conversation/sourceLocation';
import { formatNumber, visibleText } from '../shared/format';
import { t } from '../shared/i18n';
import type { AskFilters } from './askView';
import { markedParts } from './markedParts';

const MAX_HITS = 30;

const passagesQuery = (q: string, { stack, tag, name }: AskFilters) =>
  queryOptions({
    queryKey: ['search', q, stack ?? null, tag ?? null, name ?? null],
    queryFn: async ({ signal }) => {
      const query = {
        q,
        limit: MAX_HITS,
        ...(stack !== undefined && { stack_id: stack }),
        ...(tag !== undefined && { tag: [tag] }),
        ...(name !== undefined && { filename: name }),
      };
      return api.get('/api/search', { query, signal });
    },
    staleTime: 0,
  });

interface Props {
  words: string;
  filters: AskFilters;
  onShow: (place: SourceLocation) => void;
}

export function Passages({ words, filters, onShow }: Props) {
  const found = useQuery(passagesQuery(words, filters));
  const hits = (found.data?.hits ?? []) as unknown as SearchHit[];
  const waiting = found.data?.not_indexed ?? 0;
  return (
    <div className="min-h-0 overflow-auto p-4 sm:px-6">
      <div className="mx-auto grid max-w-[46rem] grid-cols-[minmax(0,1fr)] gap-3 pt-2">
        <h2 className="text-2xl font-semibold wrap-anywhere">{visibleText(words)}</h2>
        {found.isSuccess && hits.length > 0 && (
          <p className="text-xs text-muted-foreground">
            {t(hits.length < MAX_HITS ? 'ask.passages' : 'ask.bestPassages', {
              count: hits.length,
              number: formatNumber(hits.length),
            })}
          </p>
        )}
        {found.isError && <ErrorNotice error={found.error} onRetry={() => void found.refetch()} />}
        {waiting > 0 && <Notice>{t('search.indexing', { count: waiting })}</Notice>}
        {found.isPending && <Loading />}
        {found.isSuccess && hits.length === 0 && (
          <EmptyState icon={Search} title={t('search.none')} text={t('search.noneHint')} />
        )}
        <ol className="grid gap-2" aria-label={t('search.results')}>
          {hits.map((hit) => (
            <li key={`${hit.document_id} ${hit.page} ${hit.chunk[0]}`}>
              <button
                type="button"
                className="grid w-full gap-1 rounded-lg border border-border bg-card p-3 text-left wrap-anywhere hover:bg-hover"
                onClick={() => onShow(locationOfHit(hit))}>
                <span className="flex gap-2">
                  <b className="min-w-0 flex-1 truncate font-medium">{visibleText(hit.filename)}</b>
                  <span className="text-xs text-muted-foreground">{t('common.pageFirst', { page: hit.page })}</span>
                </span>
                <span className="text-muted-foreground">
                  {markedParts(hit.snippet, hit.marks).map(({ text, isMarked }, index) =>
                    isMarked ? (
                      <mark key={index} className="rounded-xs bg-need-bg font-medium text-foreground">
                        {visibleText(text)}
                      </mark>
                    ) : (
                      <span key={index}>{visibleText(text)}</span>
                    ),
                  )}
                </span>
              </button>
            </li>
          ))}
        </ol>
      </div>
    </div>
  );
}

function locationOfHit(hit: SearchHit): SourceLocation {
  return { documentId: hit.document_id, page: hit.page, boxes: hit.marks.map((mark) => mark.box), number: null, at: 0 };
}
