/** All documents of the organisation: drop some, find one, see how each stands. */

import { useInfiniteQuery, useQuery, useQueryClient } from '@tanstack/react-query';
import { useVirtualizer } from '@tanstack/react-virtual';
import { useCallback, useDeferredValue, useEffect, useMemo, useRef, useState } from 'react';
import type { Document, DocumentStatus } from '../api/types';
import { documentsRoute } from '../router';
import { Button } from '../shared/Button';
import { plain } from '../shared/format';
import { Empty, Failure } from '../shared/Notice';
import { useShortcut } from '../shared/shortcuts/useShortcut';
import { Sign } from '../shared/Sign';
import { useOwnAddress } from '../shared/useOwnAddress';
import { remove, useGoing } from './deletions';
import { documentsQuery, latestExtractionsQuery, tagsQuery } from './documentQueries';
import { DocumentRow } from './DocumentRow';
import styles from './DocumentsPage.module.css';
import { DropTarget } from './DropTarget';
import type { DocumentFilter } from './filter';
import { onUploaded, upload } from './uploads';
import { Uploads } from './Uploads';

const ROW = 40;
const HEADS = ['Name', 'Status', 'Last extraction', 'Size', 'Added', ''];
const SEARCH = { id: 'documents.search', area: 'Documents', words: 'Find a document by its name', keys: '/' };

export function DocumentsPage() {
  const filter = documentsRoute.useSearch();
  const changeAddress = useOwnAddress<DocumentFilter>();
  const queries = useQueryClient();
  const [name, setName] = useState(filter.name ?? '');
  const wanted = useDeferredValue(filter);
  const listed = useInfiniteQuery({ ...documentsQuery(wanted), placeholderData: (before) => before });
  const extractions = useQuery(latestExtractionsQuery);
  const tags = useQuery(tagsQuery);
  const going = useGoing();
  const search = useRef<HTMLInputElement>(null);
  const chooser = useRef<HTMLInputElement>(null);
  const scroller = useRef<HTMLDivElement>(null);
  const documents = useMemo(
    () => (listed.data?.pages ?? []).flatMap((page) => page.items).filter((one) => !going.has(one.id)),
    [listed.data, going],
  );

  const narrow = (to: DocumentFilter) => changeAddress((said) => ({ ...said, ...to }));
  useShortcut(SEARCH, () => search.current?.focus());
  useEffect(() => onUploaded(() => void queries.invalidateQueries({ queryKey: ['documents'] })), [queries]);
  useEffect(() => {
    if (name === (filter.name ?? '')) return undefined;
    const timer = setTimeout(() => narrow({ name: name || undefined }), 200);
    return () => clearTimeout(timer);
  });

  const onDelete = useCallback(
    ({ id, filename }: Document) => remove(id, filename, () => void queries.invalidateQueries({ queryKey: ['documents'] })),
    [queries],
  );

  const virtual = useVirtualizer({
    count: documents.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => ROW,
    overscan: 12,
    getItemKey: (index) => documents[index]?.id ?? index,
  });
  const rows = virtual.getVirtualItems();
  const last = rows.at(-1)?.index ?? 0;
  const { hasNextPage, isFetchingNextPage, fetchNextPage } = listed;
  useEffect(() => {
    if (last >= documents.length - 30 && hasNextPage && !isFetchingNextPage) void fetchNextPage();
  }, [last, documents.length, hasNextPage, isFetchingNextPage, fetchNextPage]);

  const isNarrowed = Object.keys(filter).length > 0;
  const { latest, isAll } = extractions.data ?? {};
  return (
    <div className={styles.page}>
      <DropTarget />
      <div className={styles.tools}>
        <h1>Documents</h1>
        <label className={styles.search}>
          <Sign name="search" />
          <span className="unseen">Find by name</span>
          <input ref={search} type="search" placeholder="Find by name" value={name} onChange={(event) => setName(event.target.value)} />
        </label>
        <select
          className={styles.select}
          aria-label="Status"
          value={filter.status ?? ''}
          onChange={(event) => narrow({ status: (event.target.value || undefined) as DocumentStatus | undefined })}
        >
          <option value="">Every status</option>
          <option value="ready">Read</option>
          <option value="reading">Being read</option>
          <option value="failed">Not read</option>
        </select>
        {(tags.data?.items.length ?? 0) > 0 && (
          <select className={styles.select} aria-label="Tag" value={filter.tag ?? ''} onChange={(event) => narrow({ tag: event.target.value || undefined })}>
            <option value="">Every tag</option>
            {tags.data?.items.map((tag) => (
              <option key={tag.id} value={tag.id}>
                {plain(tag.name)}
              </option>
            ))}
          </select>
        )}
        <Button kind="main" onClick={() => chooser.current?.click()}>
          <Sign name="upload" /> Upload
        </Button>
        <input
          ref={chooser}
          type="file"
          multiple
          hidden
          aria-label="Files to upload"
          onChange={(event) => {
            upload(event.target.files ?? []);
            event.target.value = '';
          }}
        />
      </div>
      <div>
        <Uploads />
        {listed.isError && <Failure error={listed.error} again={() => void listed.refetch()} />}
      </div>
      {documents.length === 0 && listed.isSuccess ? (
        isNarrowed ? (
          <Empty title="No document is like that">
            <Button
              onClick={() => {
                setName('');
                changeAddress(() => ({}));
              }}
            >
              Show all
            </Button>
          </Empty>
        ) : (
          <Empty title="Drop documents here">
            <p>Invoices, receipts, contracts, letters: PDF, pictures, Office files, mail. Each is read at once; then let its fields be extracted.</p>
            <Button onClick={() => chooser.current?.click()}>Choose files</Button>
          </Empty>
        )
      ) : (
        <div className={styles.table} ref={scroller} role="table" aria-label="Documents" aria-rowcount={documents.length + 1} tabIndex={0}>
          <div className={styles.head} role="row">
            {HEADS.map((head, index) => (
              <div key={head} role="columnheader" className={index === 2 || index === 4 ? styles.second : index === 3 ? styles.third : ''}>
                {head || <span className="unseen">Actions</span>}
              </div>
            ))}
          </div>
          <div className={styles.rows} role="rowgroup" style={{ height: virtual.getTotalSize() }}>
            {rows.map((row) => {
              const document = documents[row.index]!;
              const known = latest?.get(document.id) ?? (isAll === true ? null : isAll === false ? ('ask' as const) : undefined);
              return (
                <div key={row.key} className={styles.row} role="row" aria-rowindex={row.index + 2} style={{ transform: `translateY(${row.start}px)` }}>
                  <DocumentRow
                    document={document}
                    extraction={known}
                    onDelete={onDelete}
                  />
                </div>
              );
            })}
          </div>
        </div>
      )}
    </div>
  );
}
