/** Full-text search: the best matching excerpts, and the page of the selected one. */

import { queryOptions, useQuery } from '@tanstack/react-query';
import { getRouteApi, useNavigate } from '@tanstack/react-router';
import { useState } from 'react';
import { dataOf, api } from '../api/client';
import type { SearchHit } from '../api/types';
import { SourceViewer } from '../ask/SourceViewer';
import type { SourceLocation } from '../conversation/sourceLocation';
import askStyles from '../ask/Ask.module.css';
import { Button } from '../components/ui/Button';
import { visibleText } from '../shared/format';
import { t } from '../shared/i18n';
import { EmptyState } from '../components/ui/EmptyState';
import { ErrorNotice, Notice } from '../components/ui/Notice';
import { Icon } from '../shared/Icon';
import styles from './Search.module.css';
import { markedParts } from './markedParts';

const searchRoute = getRouteApi('/search');

const foundQuery = (q: string) =>
  queryOptions({
    queryKey: ['search', q],
    queryFn: async ({ signal }) => {
      const found = await dataOf(api.GET('/api/search', { params: { query: { q, limit: 30 } }, signal }));
      return { notIndexed: found.not_indexed, hits: found.hits as unknown as SearchHit[] };
    },
    staleTime: 0,
  });

export function SearchPage() {
  const { q } = searchRoute.useSearch();
  const navigate = useNavigate();
  const [text, setText] = useState(q ?? '');
  const [place, setPlace] = useState<SourceLocation | null>(null);
  const found = useQuery({ ...foundQuery(q ?? ''), enabled: q !== undefined });
  const { hits = [], notIndexed = 0 } = found.data ?? {};
  return (
    <div className={askStyles.page} data-beside={place !== null || undefined} data-single>
      <div className={styles.side}>
        <h1 className="sr-only">{t('areas.search')}</h1>
        <form
          className={styles.form}
          role="search"
          onSubmit={(event) => {
            event.preventDefault();
            setPlace(null);
            void navigate({ to: '/search', search: text.trim() === '' ? {} : { q: text.trim() } });
          }}>
          <input
            type="search"
            aria-label={t('search.label')}
            placeholder={t('search.label')}
            maxLength={1000}
            value={text}
            autoFocus
            onChange={(event) => setText(event.target.value)}
          />
          <Button kind="main" type="submit">
            <Icon name="search" /> {t('search.submit')}
          </Button>
        </form>
        {found.isError && <ErrorNotice error={found.error} onRetry={() => void found.refetch()} />}
        {notIndexed > 0 && <Notice>{t('search.indexing', { count: notIndexed })}</Notice>}
        {q === undefined && <EmptyState title={t('search.start')}>{t('search.startHint')}</EmptyState>}
        {found.isSuccess && hits.length === 0 && (
          <EmptyState title={t('search.none')}>{t('search.noneHint')}</EmptyState>
        )}
        <ol className={styles.hits} aria-label={t('search.results')}>
          {hits.map((hit) => (
            <li key={`${hit.document_id} ${hit.page} ${hit.chunk[0]}`}>
              <button
                type="button"
                onClick={() => setPlace((before) => ({ ...locationOfHit(hit), at: (before?.at ?? 0) + 1 }))}>
                <b className="truncate">
                  {visibleText(hit.filename)} <span className="muted">{t('common.pageFirst', { page: hit.page })}</span>
                </b>
                <span>
                  {markedParts(hit.snippet, hit.marks).map(({ text, isMarked }, index) =>
                    isMarked ? (
                      <mark key={index}>{visibleText(text)}</mark>
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
      {place !== null && <SourceViewer place={place} onClose={() => setPlace(null)} />}
    </div>
  );
}

function locationOfHit(hit: SearchHit): SourceLocation {
  return { documentId: hit.document_id, page: hit.page, boxes: hit.marks.map((mark) => mark.box), number: null, at: 0 };
}
