/** One field over many documents, a row each: what the page prints beside the value, and down the column with Enter. */

import { useQuery } from '@tanstack/react-query';
import { Link, useNavigate } from '@tanstack/react-router';
import { defaultRangeExtractor, useVirtualizer } from '@tanstack/react-virtual';
import { useEffect, useRef } from 'react';
import { knownFieldsQuery } from '../../document/documentPageQueries';
import { byFieldRoute } from '../../router';
import { useCanWrite } from '../../session/role';
import { Button } from '../../shared/Button';
import { count, visibleText } from '../../shared/format';
import { EmptyState, ErrorNotice } from '../../shared/Notice';
import { useShortcut } from '../../shared/shortcuts/useShortcut';
import { perMinute } from '../fieldsToReview';
import type { Column } from './column';
import styles from './ByField.module.css';
import { ByFieldRow } from './ByFieldRow';
import { useFieldValues } from './useFieldValues';

const ROW = 96;
const UNDO = { id: 'sheet.undo', area: 'One field', words: 'Take the last decision back', keys: 'Mod+z' };

export function ByFieldPage() {
  const column = byFieldRoute.useSearch();
  return (
    <div className={styles.page}>
      <Choice {...column} />
      {column.path === undefined ? (
        <EmptyState title="Review by field">
          <p>Choose a field above. Each document comes with what its page prints; Enter says that the value is right and goes to the next.</p>
        </EmptyState>
      ) : (
        // Another column is another sheet: nothing that was decided in the last one can be taken back here.
        <Sheet key={`${column.document_type} ${column.path}`} column={column} />
      )}
    </div>
  );
}

/** Which field, and of which type of document. */
function Choice({ path, document_type: type }: Column) {
  const known = useQuery(knownFieldsQuery(null));
  const navigate = useNavigate();
  const those = (known.data ?? []).filter((one) => !one.path.includes('[]'));
  const name = (one: { path: string; document_type: string | null }) => JSON.stringify([one.document_type, one.path]);
  const chosen = path === undefined ? '' : name({ path, document_type: type ?? null });
  const isListed = chosen === '' || those.some((one) => name(one) === chosen);
  const types = Map.groupBy(those, (one) => one.document_type);
  return (
    <div className={styles.bar}>
      <Link to="/review">Review</Link>
      <h1>One field</h1>
      <select
        className={styles.choice}
        aria-label="Field"
        value={chosen}
        onChange={(event) => {
          const [nextType, next] = JSON.parse(event.target.value) as [string | null, string];
          void navigate({ to: '/review/by-field', search: { path: next, ...(nextType !== null && { document_type: nextType }) } });
        }}
      >
        {chosen === '' && <option value="">Choose a field</option>}
        {!isListed && <option value={chosen}>{visibleText(path!)}</option>}
        {[...types].map(([ofType, fields]) => (
          <optgroup key={ofType} label={ofType === null ? 'Of no type' : visibleText(ofType)}>
            {fields.map((one) => (
              <option key={one.path} value={name(one)}>
                {visibleText(one.path)}
              </option>
            ))}
          </optgroup>
        ))}
      </select>
    </div>
  );
}

function Sheet({ column }: { column: Column }) {
  const sheet = useFieldValues(column);
  const { query, rows, active, go } = sheet;
  const scroller = useRef<HTMLDivElement>(null);
  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => ROW,
    overscan: 3,
    getItemKey: (index) => rows[index]?.extraction_id ?? index,
    // The one with the caret stays, wherever one scrolls to.
    rangeExtractor: (range) => [...new Set([...defaultRangeExtractor(range), ...(active < range.count ? [active] : [])])].sort((a, b) => a - b),
  });
  useEffect(() => virtual.scrollToIndex(active, { align: 'auto' }), [active, virtual]);
  const { hasNextPage, isFetchingNextPage, fetchNextPage } = query;
  const items = virtual.getVirtualItems();
  const isNearEnd = (items.at(-1)?.index ?? 0) >= rows.length - 30;
  useEffect(() => {
    if (isNearEnd && hasNextPage && !isFetchingNextPage) void fetchNextPage();
  }, [isNearEnd, hasNextPage, isFetchingNextPage, fetchNextPage]);
  const canWrite = useCanWrite();
  useShortcut(UNDO, sheet.undo, sheet.canUndo);

  if (query.isError) return <ErrorNotice error={query.error} onRetry={() => void query.refetch()} />;
  if (query.data === undefined) return null;
  if (rows.length === 0) {
    return (
      <EmptyState title="No document has it">
        <p>No current extraction{column.document_type !== undefined && ` of the type ${visibleText(column.document_type)}`} has a value here.</p>
      </EmptyState>
    );
  }
  const speed = perMinute(sheet.times);
  return (
    <>
      <div className={styles.told}>
        <p className="muted" role="status">
          {count(rows.length, 'document')}
          {hasNextPage && ' and more'} · {sheet.times.length.toLocaleString()} decided
          {speed !== null && ` · ${speed.toFixed(0)} a minute`}
        </p>
        {sheet.canUndo && <Button onClick={sheet.undo}>Undo</Button>}
        <span className="muted">
          <kbd>Enter</kbd> it is right, or keep what I wrote · <kbd>↑</kbd> <kbd>↓</kbd> only go · <kbd>Esc</kbd> as it was
        </span>
      </div>
      <div ref={scroller} className={styles.scroller}>
        <fieldset className={styles.plain} disabled={!canWrite}>
        <ul className={styles.rows} style={{ height: virtual.getTotalSize() }} aria-label={`Values of ${visibleText(column.path!)}`}>
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
                isRefused={sheet.refused.has(row.extraction_id)}
                isScrolling={virtual.isScrolling}
                onGo={go}
                onConfirm={sheet.confirm}
                onWrite={sheet.write}
                onUndo={sheet.canUndo ? sheet.undo : undefined}
              />
            );
          })}
        </ul>
        </fieldset>
      </div>
    </>
  );
}
