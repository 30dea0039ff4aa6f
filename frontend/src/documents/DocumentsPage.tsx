/** The list of documents: upload, search, filter, delete. */

import { getRouteApi } from '@tanstack/react-router';
import { useInfiniteQuery, useQuery, useQueryClient } from '@tanstack/react-query';
import { X } from 'lucide-react';
import { useVirtualizer } from '@tanstack/react-virtual';
import { useCallback, useDeferredValue, useEffect, useMemo, useRef, useState } from 'react';
import type { Document } from '../api/types';
import { useCanWrite } from '../session/role';
import { Button } from '../components/ui/Button';
import { formatDays, visibleText } from '../shared/format';
import { t } from '../shared/i18n';
import { Loading } from '../components/ui/Loading';
import { EmptyState } from '../components/ui/EmptyState';
import { ErrorNotice } from '../components/ui/Notice';
import { useShortcut } from '../shared/shortcuts/useShortcut';
import { Icon } from '../shared/Icon';
import { useUpdateSearch } from '../shared/useUpdateSearch';
import { deleteDocument, usePendingDeletions } from './deletions';
import { documentsQuery, tagsQuery } from './documentQueries';
import { DocumentRow } from './DocumentRow';
import styles from './DocumentsPage.module.css';
import { DropTarget } from './DropTarget';
import type { DocumentFilter } from './filter';
import { listPosition } from './listPosition';
import { onUploaded, upload } from './uploads';
import { STAGES } from './StageBadge';
import { UploadOptions } from './UploadOptions';
import { Uploads } from './Uploads';

const documentsRoute = getRouteApi('/documents');

const ROW = 40;
const COLUMNS = ['name', 'status', 'size', 'added'] as const;
const SEARCH = { id: 'documents.search', keys: '/' } as const;

export function DocumentsPage() {
  const filter = documentsRoute.useSearch();
  const updateSearch = useUpdateSearch<DocumentFilter>();
  const queries = useQueryClient();
  const [name, setName] = useState(filter.name ?? '');
  const wanted = useDeferredValue(filter);
  const listed = useInfiniteQuery({ ...documentsQuery(wanted), placeholderData: (before) => before });
  const canWrite = useCanWrite();
  const tags = useQuery(tagsQuery);
  const going = usePendingDeletions();
  const search = useRef<HTMLInputElement>(null);
  const chooser = useRef<HTMLInputElement>(null);
  const scroller = useRef<HTMLDivElement>(null);
  const documents = useMemo(
    () => (listed.data?.pages ?? []).flatMap((page) => page.items).filter((one) => !going.has(one.id)),
    [listed.data, going],
  );

  const narrow = (to: DocumentFilter) => updateSearch((params) => ({ ...params, ...to }));
  useShortcut(SEARCH, () => search.current?.focus());
  useEffect(() => onUploaded(() => void queries.invalidateQueries({ queryKey: ['documents'] })), [queries]);
  useEffect(() => {
    if (name === (filter.name ?? '')) return undefined;
    const timer = setTimeout(() => narrow({ name: name || undefined }), 200);
    return () => clearTimeout(timer);
  });

  const onDelete = useCallback(
    ({ id, filename }: Document) =>
      deleteDocument(id, filename, () => void queries.invalidateQueries({ queryKey: ['documents'] })),
    [queries],
  );

  const key = JSON.stringify(filter);
  const [opened] = useState(key);
  const [offset] = useState(() => (key === JSON.stringify(listPosition.filter) ? listPosition.offset : 0));
  useEffect(() => {
    const element = scroller.current;
    if (key !== opened) element?.scrollTo({ top: 0 });
    Object.assign(listPosition, { filter, offset: element?.scrollTop ?? 0 });
  }, [key]);
  const virtual = useVirtualizer({
    initialOffset: offset,
    onChange: ({ scrollOffset }) => {
      if (scrollOffset !== null) listPosition.offset = scrollOffset;
    },
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
  return (
    <div className={styles.page}>
      {canWrite && <DropTarget />}
      <div className={styles.tools}>
        <h1>{t('areas.documents')}</h1>
        <label className={styles.search}>
          <Icon name="search" />
          <span className="sr-only">{t('documents.searchByName')}</span>
          <input
            ref={search}
            type="search"
            placeholder={t('documents.searchByName')}
            value={name}
            onChange={(event) => setName(event.target.value)}
          />
        </label>
        <select
          className={styles.select}
          aria-label={t('documents.status')}
          value={filter.status ?? ''}
          onChange={(event) => narrow({ status: (event.target.value || undefined) as DocumentFilter['status'] })}>
          <option value="">{t('documents.allStatuses')}</option>
          {(Object.keys(STAGES) as Document['stage'][]).map((stage) => (
            <option key={stage} value={stage}>
              {t(`documents.statuses.${stage}`)}
            </option>
          ))}
        </select>
        {(tags.data?.items.length ?? 0) > 0 && (
          <select
            className={styles.select}
            aria-label={t('documents.tag')}
            value={filter.tag ?? ''}
            onChange={(event) => narrow({ tag: event.target.value || undefined })}>
            <option value="">{t('common.allTags')}</option>
            {tags.data?.items.map((tag) => (
              <option key={tag.id} value={tag.id}>
                {visibleText(tag.name)}
              </option>
            ))}
          </select>
        )}
        {filter.since !== undefined && filter.until !== undefined && (
          <Button
            icon={X}
            aria-label={t('documents.allDays')}
            onClick={() => narrow({ since: undefined, until: undefined })}>
            {formatDays(filter.since, filter.until)}
          </Button>
        )}
        {canWrite && <UploadOptions />}
        {canWrite && (
          <Button kind="main" onClick={() => chooser.current?.click()}>
            <Icon name="upload" /> {t('documents.upload')}
          </Button>
        )}
        <input
          ref={chooser}
          type="file"
          multiple
          hidden
          aria-label={t('documents.files')}
          onChange={(event) => {
            upload(event.target.files ?? []);
            event.target.value = '';
          }}
        />
      </div>
      <div>
        <Uploads />
        {listed.isError && <ErrorNotice error={listed.error} onRetry={() => void listed.refetch()} />}
      </div>
      {listed.isPending ? (
        <Loading />
      ) : documents.length === 0 && listed.isSuccess ? (
        isNarrowed ? (
          <EmptyState title={t('documents.noMatches')}>
            <Button
              onClick={() => {
                setName('');
                updateSearch(() => ({}));
              }}>
              {t('documents.clearFilters')}
            </Button>
          </EmptyState>
        ) : !canWrite ? (
          <EmptyState title={t('documents.none')} />
        ) : (
          <EmptyState title={t('documents.dropHere')}>
            <p>{t('documents.dropHint')}</p>
            <Button onClick={() => chooser.current?.click()}>{t('documents.chooseFiles')}</Button>
          </EmptyState>
        )
      ) : (
        <div
          className={styles.table}
          ref={scroller}
          role="table"
          aria-label={t('areas.documents')}
          aria-rowcount={documents.length + 1}
          tabIndex={0}>
          <div className={styles.head} role="row">
            {COLUMNS.map((column) => (
              <div
                key={column}
                role="columnheader"
                className={column === 'added' ? styles.second : column === 'size' ? styles.third : ''}>
                {t(`documents.columns.${column}`)}
              </div>
            ))}
            <div role="columnheader">
              <span className="sr-only">{t('common.actions')}</span>
            </div>
          </div>
          <div className={styles.rows} role="rowgroup" style={{ height: virtual.getTotalSize() }}>
            {rows.map((row) => {
              const document = documents[row.index]!;
              return (
                <div
                  key={row.key}
                  className={styles.row}
                  role="row"
                  aria-rowindex={row.index + 2}
                  style={{ transform: `translateY(${row.start}px)` }}>
                  <DocumentRow document={document} canDelete={canWrite} onDelete={onDelete} />
                </div>
              );
            })}
          </div>
        </div>
      )}
    </div>
  );
}
