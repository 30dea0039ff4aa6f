/** What was said in one conversation, the last below. Whoever comes back while it is answered sees the answer come. */

import { useInfiniteQuery, useQueryClient } from '@tanstack/react-query';
import { useEffect, useLayoutEffect, useRef } from 'react';
import { Button } from '../shared/Button';
import { Loading } from '../shared/Loading';
import { ErrorNotice } from '../shared/Notice';
import styles from './Conversation.module.css';
import { threadQuery } from './conversationQueries';
import type { SourceLocation } from './sourceLocation';
import { TurnView } from './TurnView';

interface Props {
  threadId: string;
  onShow?: (place: SourceLocation) => void;
}

export function Conversation({ threadId, onShow }: Props) {
  const thread = useInfiniteQuery(threadQuery(threadId));
  const queries = useQueryClient();
  const scroller = useRef<HTMLDivElement>(null);
  const end = useRef<HTMLDivElement>(null);
  const turns = (thread.data?.pages ?? []).flatMap((page) => page.turns).reverse();
  const last = turns.at(-1)?.run_id;
  useLayoutEffect(() => {
    end.current?.scrollIntoView({ block: 'end' }); // (Newer browsers answer a promise, which is no way to end an effect.)
  }, [last]);
  // While somebody reads the end, it stays in sight as the answer grows.
  useEffect(() => {
    const element = scroller.current;
    if (element === null) return undefined;
    const observer = new ResizeObserver(() => {
      if (element.scrollHeight - element.scrollTop - element.clientHeight < 160) element.scrollTop = element.scrollHeight;
    });
    for (const child of element.children) observer.observe(child);
    return () => observer.disconnect();
  }, [last]);
  if (thread.isError) return <ErrorNotice error={thread.error} onRetry={() => void thread.refetch()} />;
  return (
    <div className={styles.turns} ref={scroller} role="log" aria-label="Conversation" tabIndex={0}>
      {thread.isPending && <Loading />}
      {thread.hasNextPage && (
        <Button onClick={() => void thread.fetchNextPage()} disabled={thread.isFetchingNextPage}>
          Earlier messages
        </Button>
      )}
      {turns.map((turn) => (
        <TurnView
          key={turn.run_id}
          turn={turn}
          onShow={onShow}
          onEnded={() => void queries.invalidateQueries({ queryKey: ['thread', threadId] })}
        />
      ))}
      <div ref={end} />
    </div>
  );
}
