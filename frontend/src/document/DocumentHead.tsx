/** The head of a document in one line: the way back, its name, table and status, its place in the list, and its actions. */

import { useQuery } from '@tanstack/react-query';
import { Link, useNavigate, useSearch } from '@tanstack/react-router';
import { ChevronDown, ChevronLeft, ChevronUp, CircleHelp } from 'lucide-react';
import type { ReactNode } from 'react';
import type { DocumentDetails, Extraction } from '../api/types';
import { Button } from '../components/ui/Button';
import { StatusPill } from '../components/ui/StatusPill';
import { listPosition, useDocumentPosition } from '../documents/listPosition';
import { schemaVersionQuery } from '../fields/extractionQueries';
import { tableSearch } from '../records/gridPosition';
import { tablesQuery } from '../records/tablesQuery';
import type { DocumentView } from './documentView';
import { StageBadge } from '../documents/StageBadge';
import { formatAge, visibleText } from '../shared/format';
import { t } from '../shared/i18n';
import { useShortcut } from '../shared/shortcuts/useShortcut';

const NEXT = { id: 'document.next', keys: ']' } as const;
const PREVIOUS = { id: 'document.previous', keys: '[' } as const;

interface Props {
  document: DocumentDetails;
  extraction: Extraction | undefined;
  /** How many fields need a person. */
  open: number;
  isRunning: boolean;
  children: ReactNode;
}

export function DocumentHead({ document, extraction, open, isRunning, children }: Props) {
  const from = (useSearch({ strict: false }) as DocumentView).table;
  const revid = extraction?.schema_revid ?? null;
  const version = useQuery({ ...schemaVersionQuery(revid ?? ''), enabled: revid !== null });
  const tables = useQuery(tablesQuery).data ?? [];
  const table = tables.find(
    from === undefined ? (one) => one.schema_id === version.data?.id : (one) => one.id === from,
  );
  const name = table && visibleText(table.name);
  return (
    <header className="flex h-12 shrink-0 items-center gap-2 border-b border-border px-3">
      <BackLink from={from} name={name} />
      <h1 className="min-w-12 truncate text-lg font-semibold" title={visibleText(document.filename)}>
        {visibleText(document.filename)}
      </h1>
      {from === undefined && table !== undefined && (
        <Link
          to="/tables/$tableId"
          params={{ tableId: table.id }}
          className="max-w-48 min-w-0 truncate text-muted-foreground no-underline hover:underline max-lg:hidden">
          {name}
        </Link>
      )}
      {open > 0 && !isRunning ? (
        <StatusPill tone="need" icon={CircleHelp} className="max-sm:hidden">
          {t('document.needYou', { count: open })}
        </StatusPill>
      ) : (
        <span className="max-sm:hidden">
          <StageBadge document={{ ...document, to_review: 0 }} />
        </span>
      )}
      {extraction !== undefined && (
        <span className="text-xs whitespace-nowrap text-muted-foreground max-xl:hidden">
          {t('document.readAt', { age: formatAge(extraction.created_at) })}
        </span>
      )}
      <span className="flex-1" />
      {children}
      {/* Last, so that it stays in its place from document to document. */}
      <Position documentId={document.id} />
    </header>
  );
}

/** To the list or the table that it was opened from, filtered and scrolled as it was. */
function BackLink({ from, name }: { from: string | undefined; name: string | undefined }) {
  const back =
    from === undefined
      ? ({ to: '/documents', search: listPosition.filter } as const)
      : ({ to: '/tables/$tableId', params: { tableId: from }, search: tableSearch(from) } as const);
  return (
    <Link
      {...back}
      aria-label={t(from === undefined ? 'document.all' : 'tables.toTable')}
      className="flex min-h-7 shrink-0 items-center gap-1 rounded-md px-1 text-muted-foreground no-underline hover:bg-hover max-sm:min-h-11 max-sm:min-w-8">
      <ChevronLeft size={16} aria-hidden="true" />
      <span className="max-w-48 truncate border-r border-border pr-3 max-lg:hidden">
        {from === undefined ? t('areas.documents') : (name ?? t('areas.tables'))}
      </span>
    </Link>
  );
}

/** 12 of 38, and the documents before and after. */
function Position({ documentId }: { documentId: string }) {
  const navigate = useNavigate();
  const { at, count, isMore, before, after } = useDocumentPosition(documentId);
  const go = (id: string | undefined) =>
    id !== undefined && void navigate({ to: '/documents/$documentId', params: { documentId: id } });
  useShortcut(PREVIOUS, () => go(before), before !== undefined);
  useShortcut(NEXT, () => go(after), after !== undefined);
  if (at < 0 || count < 2) return null;
  return (
    <div className="flex items-center">
      <span className="px-1 text-xs whitespace-nowrap text-muted-foreground max-sm:hidden">
        {t('inbox.position', { at: at + 1, count })}
        {isMore && '+'}
      </span>
      <Button
        kind="quiet"
        icon={ChevronUp}
        keys="["
        label={t('document.previous')}
        disabled={before === undefined}
        onClick={() => go(before)}
      />
      <Button
        kind="quiet"
        icon={ChevronDown}
        keys="]"
        label={t('document.next')}
        disabled={after === undefined}
        onClick={() => go(after)}
      />
    </div>
  );
}
