/** Questions about all documents: conversations on the left, the answers, and the page of a source on the right. */

import { getRouteApi } from '@tanstack/react-router';
import { useInfiniteQuery, useQuery, useQueryClient } from '@tanstack/react-query';
import { List, Plus } from 'lucide-react';
import { useCallback, useState } from 'react';
import type { ThreadSummary } from '../api/types';
import { Button } from '../components/ui/Button';
import { cn } from '../components/ui/cn';
import { Notice } from '../components/ui/Notice';
import { Conversation } from '../conversation/Conversation';
import { threadQuery, threadsQuery } from '../conversation/conversationQueries';
import type { SourceLocation } from '../conversation/sourceLocation';
import { knownFieldsQuery } from '../fields/extractionQueries';
import { configQuery } from '../session/config';
import { formatAge, visibleText } from '../shared/format';
import { t } from '../shared/i18n';
import { useUpdateSearch } from '../shared/useUpdateSearch';
import { AskBox } from './AskBox';
import { type AskView, filtersOf } from './askView';
import { Passages } from './Passages';
import { SourceViewer } from './SourceViewer';
import { suggestedQuestions } from './suggestions';
import { ThreadList } from './ThreadList';
import { refresh } from '../api/queryKeys';

const MAX_RECENT = 4;
const askRoute = getRouteApi('/ask');

export function AskPage() {
  const view = askRoute.useSearch();
  const { thread, find, question } = view;
  const updateSearch = useUpdateSearch<AskView>();
  const queries = useQueryClient();
  const threads = useQuery(threadsQuery('library'));
  const [place, setPlace] = useState<SourceLocation | null>(null);
  const [isListShown, showList] = useState(false);
  const show = useCallback(
    (next: SourceLocation) => setPlace((before) => ({ ...next, at: (before?.at ?? 0) + 1 })),
    [],
  );
  const open = (next: AskView) => {
    setPlace(null);
    showList(false);
    updateSearch((params) => ({ ...filtersOf(params), ...next }), { replace: false });
  };
  // A late response must not replace a conversation that was opened since.
  const replace = (next: string | undefined) =>
    updateSearch(
      (params) =>
        params.thread === thread ? { ...filtersOf(params), ...(next !== undefined && { thread: next }) } : params,
      { replace: false },
    );
  const hasNoModel = useQuery(configQuery).data?.offline_model === true;
  const isEmpty = thread === undefined && find === undefined;
  return (
    <div className="relative flex h-full min-h-0 bg-background">
      <ThreadList
        threads={threads.data?.items ?? []}
        chosen={thread}
        onOpen={(next) => open({ thread: next })}
        onNew={() => open({})}
        onGone={() => replace(undefined)}
        className={cn(
          'w-56 shrink-0 max-lg:w-full',
          isListShown ? 'flex' : 'flex max-lg:hidden',
          place !== null && 'max-[96rem]:hidden',
          threads.data?.items.length === 0 && isEmpty && 'lg:hidden',
        )}
      />
      <div className={cn('flex min-h-0 min-w-0 flex-1 flex-col', isListShown && 'max-lg:hidden')}>
        <div className="flex h-12 shrink-0 items-center gap-1 border-b border-border pr-2 pl-4 lg:hidden">
          <span className="flex-1 text-lg font-semibold">{t('areas.ask')}</span>
          <Button kind="quiet" size="lg" icon={List} label={t('ask.threads')} onClick={() => showList(true)} />
          <Button kind="quiet" size="lg" icon={Plus} label={t('ask.new')} onClick={() => open({})} />
        </div>
        <div className={cn('grid min-h-0 grid-cols-[minmax(0,1fr)]', isEmpty ? 'mt-auto' : 'flex-1')}>
          {find !== undefined ? (
            <Passages words={find} filters={filtersOf(view)} onShow={show} />
          ) : thread === undefined ? (
            <div className="mx-auto grid w-full max-w-[48rem] content-end gap-1 px-5 pb-2">
              <h2 className="text-2xl font-semibold">{t('ask.title')}</h2>
              <p className="text-muted-foreground">{t('ask.hint')}</p>
              {hasNoModel && (
                <div className="pt-2">
                  <Notice>{t('ask.noModel')}</Notice>
                </div>
              )}
            </div>
          ) : (
            <Conversation key={thread} threadId={thread} areTitles onShow={show} />
          )}
        </div>
        <AskBox
          className={isEmpty ? (threads.data?.items.length ? 'lg:mb-auto' : 'mb-auto') : undefined}
          isStart={isEmpty}
          question={question ?? find}
          key={`${thread ?? ''} ${find ?? ''}`}
          threadId={thread}
          filters={filtersOf(view)}
          suggestions={useSuggestions(thread)}
          onFilters={(filters) =>
            updateSearch(({ stack: _, tag: __, name: ___, ...others }) => ({ ...others, ...filters }))
          }
          onFind={(words) => open({ find: words })}
          onAsked={async (threadId) => {
            await Promise.all([refresh(queries, 'threads'), refresh(queries, ['thread', threadId])]);
            if (threadId !== thread) replace(threadId);
          }}
        />
        {isEmpty && <Recent threads={threads.data?.items ?? []} onOpen={(next) => open({ thread: next })} />}
      </div>
      {place !== null && <SourceViewer place={place} onClose={() => setPlace(null)} />}
    </div>
  );
}

/** The last conversations, where their list is not beside the page. */
function Recent({ threads, onOpen }: { threads: readonly ThreadSummary[]; onOpen: (threadId: string) => void }) {
  if (threads.length === 0) return null;
  return (
    <section aria-labelledby="recent" className="mx-auto mb-auto w-full max-w-[48rem] px-5 pb-4 lg:hidden">
      <h3 id="recent" className="mb-1 text-xs text-muted-foreground">
        {t('ask.recent')}
      </h3>
      <ul>
        {threads.slice(0, MAX_RECENT).map((one) => (
          <li key={one.id} className="border-b border-line last:border-0">
            <button
              type="button"
              className="flex min-h-11 w-full items-center gap-3 text-left hover:bg-hover"
              onClick={() => onOpen(one.id)}>
              <span className="min-w-0 flex-1 truncate">{visibleText(one.title ?? t('chat.untitled'))}</span>
              <span className="text-xs text-muted-foreground">{formatAge(one.updated_at)}</span>
            </button>
          </li>
        ))}
      </ul>
    </section>
  );
}

/** Questions from the organisation's own fields that this conversation has not asked. */
function useSuggestions(thread: string | undefined): string[] {
  const fields = useQuery(knownFieldsQuery(null)).data ?? [];
  const turns = useInfiniteQuery({ ...threadQuery(thread ?? ''), enabled: thread !== undefined }).data?.pages ?? [];
  return suggestedQuestions(
    fields,
    turns.flatMap((page) => page.turns.map((turn) => turn.message ?? '')),
  );
}
