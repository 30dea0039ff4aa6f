/** The conversations about one document: a picker, the schema and prompt in use, the messages, and the message box. */

import { useInfiniteQuery, useQuery, useQueryClient } from '@tanstack/react-query';
import { useEffect } from 'react';
import { api } from '../api/client';
import { waitingQuery } from '../run/approvalQueries';
import { Conversation } from '../conversation/Conversation';
import { threadQuery, threadsQuery } from '../conversation/conversationQueries';
import { usePersonName } from '../session/people';
import { Button } from '../components/ui/Button';
import { Confirm } from '../components/ui/Confirm';
import { Loading } from '../components/ui/Loading';
import { Select } from '../components/ui/Select';
import { formatAge, visibleText } from '../shared/format';
import { t } from '../shared/i18n';
import { ErrorNotice } from '../components/ui/Notice';
import styles from './Chat.module.css';
import { ChatBox } from './ChatBox';
import { workingStateQuery } from './chatQueries';
import { refresh } from '../api/queryKeys';
import { useChange } from '../shared/useChange';

const NEW = 'new';

interface Props {
  documentId: string;
  /** A conversation's id; `last`: the most recent one; `new`: a new one. */
  chat: string;
  onOpen: (threadId: string | undefined) => void;
  /** The conversation was found, started or deleted: show another one, unless the person opened one since. */
  onReplace: (threadId: string | undefined) => void;
  canWrite: boolean;
}

export function ChatPanel({ documentId, chat, onOpen, onReplace, canWrite }: Props) {
  const queries = useQueryClient();
  const personName = usePersonName();
  const threads = useQuery(threadsQuery('document', documentId));
  const threadId = chat === 'new' ? undefined : chat;
  // The most recent conversation is known once the list is loaded again.
  const isSought = chat === 'last' && threads.isSuccess && !threads.isFetching;
  useEffect(() => {
    // Only once: a conversation started in another window must not replace this one.
    if (isSought) onReplace(threads.data?.items.find((one) => one.mine)?.id);
  }, [isSought]);
  const chosen = threads.data?.items.find((one) => one.id === threadId);
  const isWaiting = useAwaitsApproval(threadId);
  const path = { thread_id: threadId ?? '' };
  const share = useChange(['threads'], (shared: boolean) =>
    api.patch('/api/threads/{thread_id}', { path, body: { shared } }),
  );
  const remove = useChange(
    ['threads'],
    () => api.delete('/api/threads/{thread_id}', { path }),
    () => onReplace(undefined),
  );
  if (threads.isError) return <ErrorNotice error={threads.error} onRetry={() => void threads.refetch()} />;
  if (threads.data === undefined || chat === 'last') return <Loading lines={3} />;
  return (
    <div className={styles.panel}>
      <div className={styles.head}>
        <Select
          className="min-w-0 flex-1"
          label={t('chat.conversation')}
          value={threadId ?? NEW}
          placeholder="…"
          options={[
            { value: NEW, label: t('chat.new') },
            ...threads.data.items.map((one) => ({
              value: one.id,
              label: visibleText(one.title ?? t('chat.untitled')),
              hint: [
                formatAge(one.updated_at),
                ...(one.mine ? [] : [t('people.by', { person: personName(one.created_by) })]),
              ].join(' · '),
            })),
          ]}
          onChange={(next) => onOpen(next === NEW ? undefined : next)}
        />
        {canWrite && chosen?.mine === true && (
          <>
            <Button
              kind="quiet"
              aria-pressed={chosen.shared}
              disabled={share.isPending}
              onClick={() => share.mutate(!chosen.shared)}>
              {chosen.shared ? t('chat.shared') : t('chat.share')}
            </Button>
            <Confirm
              label={t('common.delete')}
              question={t('common.deleteQuestion', { name: visibleText(chosen.title ?? t('chat.untitled')) })}
              onConfirm={() => remove.mutate()}
            />
          </>
        )}
      </div>
      {threadId === undefined ? (
        <div className={styles.start}>
          <h2>{t('chat.title')}</h2>
          <p className="muted">{t('chat.approvalHint')}</p>
        </div>
      ) : (
        <>
          <ConversationContext threadId={threadId} />
          <Conversation key={threadId} threadId={threadId} />
        </>
      )}
      {canWrite && (chosen === undefined || chosen.mine) && (
        <ChatBox
          key={threadId ?? ''}
          documentId={documentId}
          threadId={threadId}
          isWaiting={isWaiting}
          onSent={async (sentTo) => {
            await refresh(queries, 'threads', ['thread', sentTo]);
            if (sentTo !== threadId) onReplace(sentTo);
          }}
        />
      )}
    </div>
  );
}

/** Whether a call of a conversation, or of a run started by one of its calls, needs approval. */
function useAwaitsApproval(threadId: string | undefined): boolean {
  const thread = useInfiniteQuery({ ...threadQuery(threadId ?? ''), enabled: threadId !== undefined });
  const waiting = useQuery(waitingQuery);
  const runs = new Set(thread.data?.pages.flatMap((page) => page.turns.map((turn) => turn.run_id)));
  return (
    waiting.data?.items.some(
      (one) =>
        (threadId !== undefined && one.thread_id === threadId) ||
        (one.parent_run_id !== null && runs.has(one.parent_run_id)),
    ) === true
  );
}

function ConversationContext({ threadId }: { threadId: string }) {
  const { data } = useQuery(workingStateQuery(threadId));
  if (data?.schema === undefined && data?.prompt === undefined) return <div />;
  return (
    <p className={`${styles.state} muted`}>
      {data.schema !== undefined && (
        <span className="truncate">{t('chat.schema', { name: visibleText(data.schema) })}</span>
      )}
      {data.prompt !== undefined && (
        <span className="truncate">{t('chat.prompt', { name: visibleText(data.prompt) })}</span>
      )}
    </p>
  );
}
