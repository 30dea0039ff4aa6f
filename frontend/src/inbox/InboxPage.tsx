/** The inbox: the list at the left, the page with its boxes in the middle, and the one question at the right. */

import { useInfiniteQuery, useQueryClient } from '@tanstack/react-query';
import { getRouteApi, Link } from '@tanstack/react-router';
import { ChevronDown, ChevronLeft, ChevronUp, CircleCheck, Undo2 } from 'lucide-react';
import { useCallback, useMemo, useRef, useState } from 'react';
import { Button, buttonClass } from '../components/ui/Button';
import { cn } from '../components/ui/cn';
import { EmptyState } from '../components/ui/EmptyState';
import { ErrorNotice } from '../components/ui/Notice';
import { StatusPill } from '../components/ui/StatusPill';
import { extractionQuery } from '../fields/extractionQueries';
import { useMarkReviewed } from '../document/MarkReviewed';
import { PageAndPanelToCome } from '../document/PageAndPanel';
import { useDecisions } from '../fields/useDecisions';
import { visibleText } from '../shared/format';
import { t } from '../shared/i18n';
import { useShortcut } from '../shared/shortcuts/useShortcut';
import { ApprovalPanel } from './ApprovalPanel';
import { DocumentPanel } from './DocumentPanel';
import { InboxList } from './InboxList';
import {
  countAnswer,
  type InboxItem,
  inboxQuery,
  isAnswered,
  itemKey,
  itemsByKey,
  runKey,
  total,
  valueKey,
} from './inboxQueries';
import type { InboxView } from './inboxView';
import { QuestionPanel } from './QuestionPanel';
import { refresh as refreshQueries } from '../api/queryKeys';

const route = getRouteApi('/inbox');
const NEXT = { id: 'inbox.next', keys: 'j' } as const;
const PREVIOUS = { id: 'inbox.previous', keys: 'k' } as const;
const UNDO = { id: 'inbox.undo', keys: 'Mod+z' } as const;

export function InboxPage() {
  const view = route.useSearch();
  const navigate = route.useNavigate();
  const queries = useQueryClient();
  const inbox = useInfiniteQuery(inboxQuery(view));
  // Answered items leave at once. Those that the service still asks about come back once it has saved the answer.
  const [answered, setAnswered] = useState<ReadonlySet<string>>(new Set());
  const [chosen, setChosen] = useState(view.run === undefined ? null : runKey(view.run));
  // Where there is no room for both, the list comes first.
  const [isListShown, showList] = useState(view.run === undefined);
  const shown = useRef<InboxItem>(undefined);
  const items = useMemo(() => {
    const all = itemsByKey((inbox.data?.pages ?? []).flatMap((page) => page.items));
    // What someone else has answered meanwhile stays while the person types an answer.
    const kept = shown.current;
    if (kept !== undefined && document.activeElement?.closest('[data-typing]') != null && !all.has(itemKey(kept)))
      all.set(itemKey(kept), kept);
    return [...all.values()].filter((one) => !isAnswered(one, answered));
  }, [inbox.data, answered]);
  const place = useRef(0);
  const found = items.findIndex((one) => itemKey(one) === chosen);
  const index = found >= 0 ? found : Math.min(place.current, items.length - 1);
  place.current = Math.max(index, 0);
  const item = items[index];
  shown.current = item;
  const counts = inbox.data?.pages[0]?.counts;

  const choose = (key: string) => {
    setChosen(key);
    showList(false);
  };
  const move = (by: number) => {
    const next = items[index + by];
    if (next !== undefined) choose(itemKey(next));
  };
  useShortcut(NEXT, () => move(1));
  useShortcut(PREVIOUS, () => move(-1));

  const hide = useCallback((key: string, is: boolean) => {
    setAnswered((before) => {
      const after = new Set(before);
      if (is) after.add(key);
      else after.delete(key);
      return after;
    });
  }, []);
  const refresh = useCallback(() => refreshQueries(queries, 'inbox'), [queries]);
  /** It leaves the list; the item in its place opens. */
  const done = async (one: InboxItem) => {
    hide(itemKey(one), true);
    countAnswer(queries, one.kind, -(one.alike?.length ?? 1));
    setChosen(null);
    await refresh();
    hide(itemKey(one), false);
  };
  const seen = useCallback((extractionId: string) => queries.ensureQueryData(extractionQuery(extractionId)), [queries]);
  const mark = useCallback(
    (extractionId: string, path: string, is: boolean) => {
      const key = valueKey(extractionId, path);
      hide(key, is);
      countAnswer(queries, 'value', is ? -1 : 1);
      setChosen(is ? null : key);
      if (!is) void refresh();
    },
    [hide, queries, refresh],
  );
  const decisions = useDecisions({ seen, mark });
  useShortcut(UNDO, () => void decisions.undo(), decisions.canUndo);
  const finish = useMarkReviewed(() => void refresh());
  /** Once the last answer of an extraction is saved, it is marked as reviewed, if an agent has completed it. */
  const decided = async (extractionId: string, path: string, saved: Promise<boolean>) => {
    if (!(await saved)) return;
    const now = queries.getQueryData(extractionQuery(extractionId).queryKey);
    if (now?.status === 'completed' && now.review_count === 0 && now.reviewed_by === null) finish.mutate(now);
    await refresh();
    hide(valueKey(extractionId, path), false);
  };

  if (inbox.isError) return <ErrorNotice error={inbox.error} onRetry={() => void inbox.refetch()} />;
  // Of the kind that is shown.
  const all = view.kind === undefined ? total(counts) : counts?.[view.kind];
  const isFiltered = Object.keys(view).some((one) => one !== 'order' && one !== 'run');
  const isEmpty = items.length === 0 && !isFiltered && !inbox.isPending;
  const undo = decisions.canUndo && (
    <Button kind="quiet" icon={Undo2} keys="⌘Z" onClick={() => void decisions.undo()}>
      {t('common.undo')}
    </Button>
  );
  return (
    <div className="flex h-full min-h-0 bg-background">
      <InboxList
        items={inbox.isPending ? undefined : items}
        counts={counts}
        view={view}
        chosen={item === undefined ? null : itemKey(item)}
        hasMore={inbox.hasNextPage}
        onChoose={choose}
        onView={(search: InboxView) => void navigate({ search })}
        onMore={() => void inbox.fetchNextPage()}
        className={cn(
          'w-76 shrink-0 max-lg:w-full',
          isEmpty ? 'hidden' : 'flex',
          // What is filtered out leaves the filters in view.
          !isListShown && items.length > 0 && 'max-lg:hidden',
        )}
      />
      <div
        className={cn(
          'flex min-h-0 min-w-0 flex-1 flex-col',
          isEmpty ? 'justify-center pb-24' : (isListShown || items.length === 0) && 'max-lg:hidden',
        )}>
        {inbox.isPending ? (
          <PageAndPanelToCome />
        ) : item === undefined ? (
          <EmptyState
            icon={CircleCheck}
            title={t('inbox.done')}
            text={t(isFiltered ? 'inbox.noneFoundHint' : 'inbox.doneHint')}>
            {undo}
            {isFiltered ? (
              <Button onClick={() => void navigate({ search: {} })}>{t('inbox.showAll')}</Button>
            ) : (
              <div className="flex flex-wrap justify-center gap-2">
                <Link to="/documents" className={buttonClass({ kind: 'main' })}>
                  {t('stacks.addDocuments')}
                </Link>
                <Link to="/tables" className={buttonClass()}>
                  {t('inbox.openTables')}
                </Link>
              </div>
            )}
          </EmptyState>
        ) : (
          <>
            <Head
              item={item}
              position={t('inbox.position', { at: index + 1, count: all?.count ?? items.length })}
              onBack={() => showList(true)}>
              {undo}
              <Button
                kind="quiet"
                icon={ChevronUp}
                label={t('inbox.previous')}
                disabled={index === 0}
                onClick={() => move(-1)}
              />
              <Button
                kind="quiet"
                icon={ChevronDown}
                label={t('inbox.next')}
                disabled={index === items.length - 1}
                onClick={() => move(1)}
              />
            </Head>
            {item.kind === 'value' && item.extraction_id !== null ? (
              <QuestionPanel
                key={itemKey(item)}
                item={item}
                left={
                  items.filter((one) => one.extraction_id === item.extraction_id && one.kind === 'value' && one.path)
                    .length
                }
                next={items[index + 1]}
                decisions={decisions}
                onDecided={(path, saved) => void decided(item.extraction_id ?? '', path, saved)}
                onReviewed={() => void done(item)}
              />
            ) : item.kind === 'approval' ? (
              <ApprovalPanel key={itemKey(item)} item={item} onDecided={() => void done(item)} />
            ) : (
              <DocumentPanel
                key={itemKey(item)}
                documentId={item.document_id ?? ''}
                alike={item.alike}
                onDecided={() => void done(item)}
              />
            )}
          </>
        )}
      </div>
    </div>
  );
}

interface HeadProps {
  item: InboxItem;
  position: string;
  onBack: () => void;
  children: React.ReactNode;
}

function Head({ item, position, onBack, children }: HeadProps) {
  const linkClass = 'min-w-0 truncate font-semibold text-foreground no-underline hover:underline';
  return (
    <div className="flex h-12 shrink-0 items-center gap-2 border-b border-border px-4 max-lg:pl-1">
      <Button
        kind="quiet"
        icon={ChevronLeft}
        label={t('inbox.list')}
        className="max-lg:min-h-11 max-lg:min-w-9 lg:hidden"
        onClick={onBack}
      />
      {item.stack_id !== null && item.document_id === null ? (
        <Link to="/tables/$tableId" params={{ tableId: item.stack_id }} className={linkClass}>
          {visibleText(item.table ?? t('areas.tables'))}
        </Link>
      ) : item.document_id === null ? (
        <b className="truncate font-semibold">{t('approvals.allDocuments')}</b>
      ) : (
        <Link
          to="/documents/$documentId"
          params={{ documentId: item.document_id }}
          search={{
            ...(item.extraction_id !== null && { extraction: item.extraction_id }),
            ...(item.path !== null && item.path !== '' && { field: item.path }),
          }}
          className={linkClass}>
          {visibleText(item.filename ?? t('approvals.document'))}
        </Link>
      )}
      {item.table !== null && item.kind !== 'suggestion' && item.document_id !== null && (
        <StatusPill className="max-sm:hidden">{visibleText(item.table)}</StatusPill>
      )}
      <span className="flex-1" />
      <span className="shrink-0 text-xs text-muted-foreground" role="status">
        {position}
      </span>
      {children}
    </div>
  );
}
