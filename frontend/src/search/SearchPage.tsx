/** What documents say of some words: the pieces that fit best, and the page of the chosen one beside them. */

import { queryOptions, useQuery } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { useState } from 'react';
import { answer, api } from '../api/client';
import type { SearchHit } from '../api/types';
import { PlaceViewer } from '../ask/PlaceViewer';
import type { SeenPlace } from '../conversation/seenPlace';
import askStyles from '../ask/Ask.module.css';
import { searchRoute } from '../router';
import { Button } from '../shared/Button';
import { count, plain } from '../shared/format';
import { Empty, Failure, Notice } from '../shared/Notice';
import { Sign } from '../shared/Sign';
import styles from './Search.module.css';
import { markedParts } from './markedParts';

const foundQuery = (q: string) =>
  queryOptions({
    queryKey: ['search', q],
    queryFn: async ({ signal }) => {
      const found = await answer(api.GET('/api/search', { params: { query: { q, limit: 30 } }, signal }));
      return { behind: found.behind, hits: found.hits as unknown as SearchHit[] };
    },
    staleTime: 0,
  });

export function SearchPage() {
  const { q } = searchRoute.useSearch();
  const navigate = useNavigate();
  const [written, write] = useState(q ?? '');
  const [place, setPlace] = useState<SeenPlace | null>(null);
  const found = useQuery({ ...foundQuery(q ?? ''), enabled: q !== undefined });
  const { hits = [], behind = 0 } = found.data ?? {};
  return (
    <div className={askStyles.page} data-beside={place !== null || undefined} data-single>
      <div className={styles.side}>
        <h1 className="unseen">Search</h1>
        <form
          className={styles.form}
          role="search"
          onSubmit={(event) => {
            event.preventDefault();
            setPlace(null);
            void navigate({ to: '/search', search: written.trim() === '' ? {} : { q: written.trim() } });
          }}
        >
          <input type="search" aria-label="Words" placeholder="Words in your documents" maxLength={1000} value={written} autoFocus onChange={(event) => write(event.target.value)} />
          <Button kind="main" type="submit">
            <Sign name="search" /> Search
          </Button>
        </form>
        {found.isError && <Failure error={found.error} again={() => void found.refetch()} />}
        {behind > 0 && <Notice>{count(behind, 'document')} not indexed yet: they may be missing here.</Notice>}
        {q === undefined && <Empty title="Search your documents">Matches any word; rare words rank higher.</Empty>}
        {found.isSuccess && hits.length === 0 && <Empty title="No results">Try other words, or fewer.</Empty>}
        <ol className={styles.hits} aria-label="Found">
          {hits.map((hit) => (
            <li key={`${hit.document_id} ${hit.page} ${hit.chunk[0]}`}>
              <button type="button" onClick={() => setPlace((before) => ({ ...placeOfHit(hit), at: (before?.at ?? 0) + 1 }))}>
                <b className="cut">
                  {plain(hit.filename)} <span className="soft">page {hit.page}</span>
                </b>
                <span>
                  {markedParts(hit.snippet, hit.marks).map(({ text, isMarked }, index) =>
                    isMarked ? <mark key={index}>{plain(text)}</mark> : <span key={index}>{plain(text)}</span>,
                  )}
                </span>
              </button>
            </li>
          ))}
        </ol>
      </div>
      {place !== null && <PlaceViewer place={place} onClose={() => setPlace(null)} />}
    </div>
  );
}

function placeOfHit(hit: SearchHit): SeenPlace {
  return { documentId: hit.document_id, page: hit.page, boxes: hit.marks.map((mark) => mark.box), number: null, at: 0 };
}
