/** The messages of one conversation, the newest at the bottom. */

import { useInfiniteQuery, useQueryClient } from '@tanstack/react-query';
import { useEffect, useLayoutEffect, useRef } from 'react';
import { Button } from '../components/ui/Button';
import { t } from '../shared/i18n';
import { Loading } from '../components/ui/Loading';
import { ErrorNotice } from '../components/ui/Notice';
import { threadQuery } from './conversationQueries';
import type { SourceLocation } from './sourceLocation';
import { TurnView } from './TurnView';
import { refresh } from '../api/queryKeys';

interface Props {
  threadId: string;
  onShow?: (place: SourceLocation) => void;
  /** Messages are the titles of their answers. Else they are at the right, as in a chat. */
  areTitles?: boolean;
}

export function Conversation({ threadId, onShow, areTitles = false }: Props) {
  const thread = useInfiniteQuery(threadQuery(threadId));
  const queries = useQueryClient();
  const scroller = useRef<HTMLDivElement>(null);
  const newest = useRef<HTMLDivElement>(null);
  const turns = (thread.data?.pages ?? []).flatMap((page) => page.turns).reverse();
  const last = turns.at(-1)?.run_id;
  useLayoutEffect(() => {
    // Some browsers return a promise: don't return it from the effect.
    newest.current?.scrollIntoView({ block: areTitles ? 'start' : 'end' });
  }, [last, areTitles]);
  // In a chat keep the end visible while the answer grows, unless the person has scrolled up.
  useEffect(() => {
    const element = scroller.current;
    if (element === null || areTitles) return undefined;
    const observer = new ResizeObserver(() => {
      if (element.scrollHeight - element.scrollTop - element.clientHeight < 160)
        element.scrollTop = element.scrollHeight;
    });
    for (const child of element.children) observer.observe(child);
    return () => observer.disconnect();
  }, [last, areTitles]);
  if (thread.isError) return <ErrorNotice error={thread.error} onRetry={() => void thread.refetch()} />;
  return (
    <div
      ref={scroller}
      role="log"
      aria-label={t('chat.conversation')}
      tabIndex={0}
      className="min-h-0 overflow-auto p-4 outline-offset-[-2px] sm:px-6">
      {thread.isPending && <Loading />}
      {thread.hasNextPage && (
        <Button onClick={() => void thread.fetchNextPage()} disabled={thread.isFetchingNextPage}>
          {t('chat.earlier')}
        </Button>
      )}
      {turns.map((turn) => (
        <div key={turn.run_id} ref={turn.run_id === last ? newest : undefined} className="scroll-mt-4">
          <TurnView
            turn={turn}
            isTitle={areTitles}
            onShow={onShow}
            onEnded={() => void refresh(queries, ['thread', threadId])}
          />
        </div>
      ))}
    </div>
  );
}
