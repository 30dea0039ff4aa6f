/** Questions about all documents: conversations on the left, the messages, and the page of a source on the right. */

import { getRouteApi } from '@tanstack/react-router';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useCallback, useState } from 'react';
import { Conversation } from '../conversation/Conversation';
import { threadsQuery } from '../conversation/conversationQueries';
import type { SourceLocation } from '../conversation/sourceLocation';
import { useCanWrite } from '../session/role';
import { Button } from '../components/ui/Button';
import { useUpdateSearch } from '../shared/useUpdateSearch';
import { t } from '../shared/i18n';
import styles from './Ask.module.css';
import { AskBox } from './AskBox';
import type { AskView } from './askView';
import { SourceViewer } from './SourceViewer';
import { ThreadList } from './ThreadList';

const askRoute = getRouteApi('/ask');

export function AskPage() {
  const { thread, stack, question } = askRoute.useSearch();
  const updateSearch = useUpdateSearch<AskView>();
  const queries = useQueryClient();
  const threads = useQuery(threadsQuery('library'));
  const canWrite = useCanWrite();
  const [place, setPlace] = useState<SourceLocation | null>(null);
  const show = useCallback(
    (next: SourceLocation) => setPlace((before) => ({ ...next, at: (before?.at ?? 0) + 1 })),
    [],
  );
  const start = () => {
    setPlace(null);
    updateSearch(({ thread: _, ...others }) => others, { replace: false });
  };
  const open = (next: string) => {
    setPlace(null);
    updateSearch(() => ({ thread: next }), { replace: false });
  };
  // A late response must not replace a conversation that was opened since.
  const replace = (next: string | undefined) =>
    updateSearch(
      (params) =>
        params.thread === thread
          ? { ...(stack !== undefined && { stack }), ...(next !== undefined && { thread: next }) }
          : params,
      { replace: false },
    );
  return (
    <div className={styles.page} data-beside={place !== null || undefined}>
      <aside className={styles.threads} aria-label={t('ask.threads')}>
        <Button kind={thread === undefined ? 'plain' : 'main'} onClick={start}>
          {t('ask.new')}
        </Button>
        <ThreadList
          threads={threads.data?.items ?? []}
          chosen={thread}
          onOpen={open}
          onGone={() => replace(undefined)}
        />
      </aside>
      <div className={styles.talk}>
        {thread === undefined ? (
          <div className={styles.start}>
            <h1>{t('ask.title')}</h1>
            <p className="muted">
              {t('ask.hint')} {t('ask.examples')}
            </p>
          </div>
        ) : (
          <Conversation key={thread} threadId={thread} onShow={show} />
        )}
        {canWrite && (
          <AskBox
            question={question}
            key={thread ?? ''}
            threadId={thread}
            stackId={stack}
            onStack={(next) =>
              updateSearch(({ stack: _, ...others }) => (next === undefined ? others : { ...others, stack: next }))
            }
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
