/** One row of the archive. */

import { Link } from '@tanstack/react-router';
import { memo } from 'react';
import type { ListedDocument } from '../api/types';
import { Avatar } from '../session/Avatar';
import { Checkbox } from '../components/ui/Checkbox';
import { cn } from '../components/ui/cn';
import { readingErrorText } from '../shared/codeText';
import { formatNumber, formatShortDay, formatTime, visibleText } from '../shared/format';
import { t } from '../shared/i18n';
import { Letterhead } from './Letterhead';
import { StageBadge } from './StageBadge';

/** The columns: choose, document, table, key value, status, pages, added. Fewer on narrow windows. */
export const gridClass = cn(
  'grid items-center gap-x-3 px-4 sm:px-6',
  'grid-cols-[1.25rem_minmax(0,1fr)_auto] sm:grid-cols-[1.25rem_minmax(0,1fr)_8rem_10rem]',
  'lg:grid-cols-[1.25rem_minmax(0,1fr)_8rem_minmax(0,13rem)_8rem_6.5rem]',
  'xl:grid-cols-[1.25rem_minmax(0,1fr)_8rem_minmax(0,13rem)_8.5rem_2.5rem_6.5rem]',
);

interface Props {
  document: ListedDocument;
  isChosen: boolean;
  canChoose: boolean;
  /** `isRange`: also those since the one that was chosen last. */
  onChoose: (id: string, isChosen: boolean, isRange: boolean) => void;
}

export const DocumentRow = memo(function DocumentRow({ document, isChosen, canChoose, onChoose }: Props) {
  const { id, filename, tables, page_count: pages, created_by: by, error_code: code } = document;
  const name = visibleText(filename);
  const why = document.error === null || code === 'password' ? null : readingErrorText(code, document.error);
  return (
    <>
      <div role="cell" className="flex">
        {canChoose && (
          <Checkbox
            checked={isChosen}
            label={t('documents.choose', { name })}
            onChange={(next, event) => onChoose(id, next, 'shiftKey' in event && event.shiftKey === true)}
          />
        )}
      </div>
      <div role="cell" className="flex min-w-0 items-center gap-3">
        <Letterhead documentId={id} isReadable={document.status === 'ready' && (pages ?? 0) > 0} />
        <Link
          to="/documents/$documentId"
          params={{ documentId: id }}
          className="min-w-0 truncate font-medium text-foreground no-underline hover:underline"
          title={name}>
          {name}
        </Link>
        {document.tags.map((tag) => (
          <span
            key={tag.id}
            className="flex min-w-0 shrink-[3] items-center gap-1 rounded-full border border-border px-2 text-2xs text-muted-foreground max-sm:hidden">
            <span className="size-2 shrink-0 rounded-full" style={{ background: tag.color }} />
            <span className="truncate">{visibleText(tag.name)}</span>
          </span>
        ))}
      </div>
      <div role="cell" className="truncate text-muted-foreground max-lg:hidden">
        {tables?.map((one, at) => (
          <span key={one.table_id}>
            {at > 0 && ', '}
            <Link
              to="/tables/$tableId"
              params={{ tableId: one.table_id }}
              className="text-muted-foreground no-underline hover:text-foreground hover:underline">
              {visibleText(one.name)}
            </Link>
          </span>
        ))}
      </div>
      <div role="cell" className="truncate text-muted-foreground max-sm:hidden" title={why ?? undefined}>
        {why ?? keyText(document)}
      </div>
      <div role="cell" className="flex min-w-0 items-center truncate" title={why ?? undefined}>
        <StageBadge document={document} />
      </div>
      <div role="cell" className="text-muted-foreground max-xl:hidden">
        {pages === null ? '' : formatNumber(pages)}
      </div>
      <div
        role="cell"
        className="flex items-center gap-2 whitespace-nowrap text-muted-foreground max-lg:hidden"
        title={formatTime(document.created_at)}>
        {by !== null && <Avatar id={by} isAlone />}
        {formatShortDay(document.created_at)}
      </div>
    </>
  );
});

/** Return the values that identify a document: "1,284.01 EUR, BW-11840". */
function keyText({ key_values: values }: ListedDocument): string {
  if (values == null) return '';
  const { total, currency, number, vendor } = values;
  const amount =
    typeof total === 'number'
      ? [formatNumber(total, { minimumFractionDigits: 2 }), currency].filter((one) => one != null).join(' ')
      : null;
  return [amount, number ?? null, amount === null || number == null ? vendor : null]
    .filter((one) => one != null && one !== '')
    .map((one) => visibleText(String(one)))
    .join(', ');
}
