/** Questions over all documents: conversations left, what was said, and beside it the page that a source stands on. */

import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useCallback, useState } from 'react';
import { Conversation } from '../conversation/Conversation';
import { threadsQuery } from '../conversation/conversationQueries';
import type { SourceLocation } from '../conversation/sourceLocation';
import { askRoute } from '../router';
import { useCanWrite } from '../session/role';
import { Button } from '../shared/Button';
import { useUpdateSearch } from '../shared/useUpdateSearch';
import styles from './Ask.module.css';
import { AskBox } from './AskBox';
import { SourceViewer } from './SourceViewer';
import { ThreadList } from './ThreadList';

export function AskPage() {
  const { thread } = askRoute.useSearch();
  const changeAddress = useUpdateSearch<{ thread?: string }>();
  const queries = useQueryClient();
  const threads = useQuery(threadsQuery('library'));
  const canWrite = useCanWrite();
  const [place, setPlace] = useState<SourceLocation | null>(null);
  const show = useCallback((next: SourceLocation) => setPlace((before) => ({ ...next, at: (before?.at ?? 0) + 1 })), []);
  const open = (next: string | undefined) => {
    setPlace(null);
    changeAddress(() => addressed(next), { replace: false });
  };
  // An answer that comes late takes nobody away from what they opened since.
  const replace = (next: string | undefined) => changeAddress((said) => (said.thread === thread ? addressed(next) : said), { replace: false });
  return (
    <div className={styles.page} data-beside={place !== null || undefined}>
      <aside className={styles.threads} aria-label="Conversations">
        <Button kind={thread === undefined ? 'plain' : 'main'} onClick={() => open(undefined)}>
          New question
        </Button>
        <ThreadList threads={threads.data?.items ?? []} chosen={thread} onOpen={open} onGone={() => replace(undefined)} />
      </aside>
      <div className={styles.talk}>
        {thread === undefined ? (
          <div className={styles.start}>
            <h1>Ask your documents</h1>
            <p className="muted">
              Answers come with the places that they rest on, and say what they do not cover. “What do the surveys say about the
              roof?” · “How many invoices are over 1,000?” · “Sum of totals by vendor”
            </p>
          </div>
        ) : (
          <Conversation key={thread} threadId={thread} onShow={show} />
        )}
        {canWrite && (
        <AskBox
          key={thread ?? ''}
          threadId={thread}
          onAsked={async (threadId) => {
            await Promise.all([
              queries.invalidateQueries({ queryKey: ['threads'] }),
              queries.invalidateQueries({ queryKey: ['thread', threadId] }),
            ]);
            if (threadId !== thread) replace(threadId);
          }}
        />
        )}
      </div>
      {place !== null && <SourceViewer place={place} onClose={() => setPlace(null)} />}
    </div>
  );
}

function addressed(thread: string | undefined): { thread?: string } {
  return thread === undefined ? {} : { thread };
}
