/** Reviewing one field across documents: a row per document with an excerpt and the value; Enter moves down. */

import { useQuery } from '@tanstack/react-query';
import { getRouteApi, Link, useNavigate } from '@tanstack/react-router';
import { defaultRangeExtractor, useVirtualizer } from '@tanstack/react-virtual';
import { useEffect, useRef } from 'react';
import { knownFieldsQuery } from '../../document/documentPageQueries';
import { pathLabel } from '../../document/fields/labels';
import { useCanWrite } from '../../session/role';
import { Button } from '../../components/ui/Button';
import { visibleText } from '../../shared/format';
import { t } from '../../shared/i18n';
import { EmptyState } from '../../components/ui/EmptyState';
import { ErrorNotice } from '../../components/ui/Notice';
import { useShortcut } from '../../shared/shortcuts/useShortcut';
import { perMinute } from '../fieldsToReview';
import type { Column } from './column';
import styles from './ByField.module.css';
import { ByFieldRow } from './ByFieldRow';
import { useFieldValues } from './useFieldValues';

const byFieldRoute = getRouteApi('/review/by-field');

const ROW = 96;
const UNDO = { id: 'byField.undo', keys: 'Mod+z' } as const;

export function ByFieldPage() {
  const column = byFieldRoute.useSearch();
  return (
    <div className={styles.page}>
      <FieldPicker {...column} />
      {column.path === undefined ? (
        <EmptyState title={t('byField.start')}>
          <p>{t('byField.startHint')}</p>
        </EmptyState>
      ) : (
        // Remount for another field: its decisions have their own undo.
        <FieldColumn key={`${column.document_type} ${column.path}`} column={column} />
      )}
    </div>
  );
}

/** Picks the field and the document type. */
function FieldPicker({ path, document_type: type }: Column) {
  const known = useQuery(knownFieldsQuery(null));
  const navigate = useNavigate();
  const fields = (known.data ?? []).filter((one) => !one.path.includes('[]'));
  const name = (one: { path: string; document_type: string | null }) => JSON.stringify([one.document_type, one.path]);
  const chosen = path === undefined ? '' : name({ path, document_type: type ?? null });
  const isListed = chosen === '' || fields.some((one) => name(one) === chosen);
  const types = Map.groupBy(fields, (one) => one.document_type);
  return (
    <div className={styles.bar}>
      <Link to="/review">{t('areas.review')}</Link>
      <h1>{t('byField.title')}</h1>
      <select
        className={styles.choice}
        aria-label={t('common.field')}
        value={chosen}
        onChange={(event) => {
          const [nextType, next] = JSON.parse(event.target.value) as [string | null, string];
          void navigate({
            to: '/review/by-field',
            search: { path: next, ...(nextType !== null && { document_type: nextType }) },
          });
        }}>
        {chosen === '' && <option value="">{t('byField.choose')}</option>}
        {!isListed && <option value={chosen}>{pathLabel(path!)}</option>}
        {[...types].map(([ofType, fields]) => (
          <optgroup key={ofType} label={ofType === null ? t('byField.noType') : visibleText(ofType)}>
            {fields.map((one) => (
              <option key={one.path} value={name(one)}>
                {pathLabel(one.path)}
              </option>
            ))}
          </optgroup>
        ))}
      </select>
    </div>
  );
}

function FieldColumn({ column }: { column: Column }) {
  const values = useFieldValues(column);
  const { query, rows, active, go } = values;
  const scroller = useRef<HTMLDivElement>(null);
  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => ROW,
    overscan: 3,
    getItemKey: (index) => rows[index]?.extraction_id ?? index,
    // Keep the row with the focus mounted while scrolling.
    rangeExtractor: (range) =>
      [...new Set([...defaultRangeExtractor(range), ...(active < range.count ? [active] : [])])].sort((a, b) => a - b),
  });
  useEffect(() => virtual.scrollToIndex(active, { align: 'auto' }), [active, virtual]);
  const { hasNextPage, isFetchingNextPage, fetchNextPage } = query;
  const items = virtual.getVirtualItems();
  const isNearEnd = (items.at(-1)?.index ?? 0) >= rows.length - 30;
  useEffect(() => {
    if (isNearEnd && hasNextPage && !isFetchingNextPage) void fetchNextPage();
  }, [isNearEnd, hasNextPage, isFetchingNextPage, fetchNextPage]);
  const canWrite = useCanWrite();
  useShortcut(UNDO, values.undo, values.canUndo);

  if (query.isError) return <ErrorNotice error={query.error} onRetry={() => void query.refetch()} />;
  if (query.data === undefined) return null;
  if (rows.length === 0) {
    return (
      <EmptyState title={t('byField.none')}>
        <p>
          {column.document_type === undefined
            ? t('byField.noneHint')
            : t('byField.noneOfType', { type: visibleText(column.document_type) })}
        </p>
      </EmptyState>
    );
  }
  const speed = perMinute(values.times);
  return (
    <>
      <div className={styles.progress}>
        <p className="muted" role="status">
          {[
            t(hasNextPage ? 'byField.moreDocuments' : 'common.documents', { count: rows.length }),
            t('byField.reviewed', { count: values.times.length }),
            speed !== null && t('review.perMinute', { speed: Math.round(speed) }),
          ]
            .filter(Boolean)
            .join(' · ')}
        </p>
        {values.canUndo && <Button onClick={values.undo}>{t('common.undo')}</Button>}
        <span className="muted">
          <kbd>Enter</kbd> {t('byField.keyConfirm')} · <kbd>↑</kbd> <kbd>↓</kbd> {t('byField.keyMove')} · <kbd>Esc</kbd>{' '}
          {t('byField.keyRevert')}
        </span>
      </div>
      <div ref={scroller} className={styles.scroller}>
        <fieldset className={styles.plain} disabled={!canWrite}>
          <ul
            className={styles.rows}
            style={{ height: virtual.getTotalSize() }}
            aria-label={t('byField.values', { field: pathLabel(column.path!) })}>
            {items.map(({ index, key, start }) => {
              const row = rows[index]!;
              return (
                <ByFieldRow
                  key={key}
                  row={row}
                  path={column.path!}
                  index={index}
                  top={start}
                  isActive={index === active}
                  isRefused={values.refused.has(row.extraction_id)}
                  isScrolling={virtual.isScrolling}
                  onGo={go}
                  onConfirm={values.confirm}
                  onWrite={values.write}
                  onUndo={values.canUndo ? values.undo : undefined}
                />
              );
            })}
          </ul>
        </fieldset>
      </div>
    </>
  );
}
