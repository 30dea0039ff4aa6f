/** The conversations about one document: which one, what it takes for granted, what was said, and where one goes on. */

import { useInfiniteQuery, useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useEffect, type ReactNode } from 'react';
import { dataOf, api } from '../api/client';
import { waitingQuery } from '../approvals/approvalQueries';
import { Conversation } from '../conversation/Conversation';
import { threadQuery, threadsQuery } from '../conversation/conversationQueries';
import { Button } from '../shared/Button';
import { Confirm } from '../shared/Confirm';
import { ago, visibleText } from '../shared/format';
import { ErrorNotice, errorMessage } from '../shared/Notice';
import { toast } from '../shared/Toasts';
import styles from './Chat.module.css';
import { ChatBox } from './ChatBox';
import { workingStateQuery } from './chatQueries';

interface Props {
  documentId: string;
  /** A conversation's id; `last`: the one that was gone on with last; `new`: one that has not begun. */
  chat: string;
  onOpen: (threadId: string | undefined) => void;
  /** The one shown is another now (it was found, begun or deleted), unless another was opened since. */
  onReplace: (threadId: string | undefined) => void;
  /** The fields that the conversation is about. */
  fields: ReactNode;
  canWrite: boolean;
}

export function ChatPanel({ documentId, chat, onOpen, onReplace, fields, canWrite }: Props) {
  const queries = useQueryClient();
  const threads = useQuery(threadsQuery('document', documentId));
  const threadId = chat === 'new' ? undefined : chat;
  // Which was the last is known when the list is as of now, not as of when it was last looked at.
  const isSought = chat === 'last' && threads.isSuccess && !threads.isFetching;
  useEffect(() => {
    // Named from here on: what is begun in another window takes nobody away from what they are writing.
    if (isSought) onReplace(threads.data?.items.find((one) => one.mine)?.id);
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [isSought]);
  const chosen = threads.data?.items.find((one) => one.id === threadId);
  const renewed = () => queries.invalidateQueries({ queryKey: ['threads'] });
  const wrong = (error: unknown) => toast(errorMessage(error), { urgent: true });
  const isWaiting = useAwaitsApproval(threadId);
  const path = { thread_id: threadId ?? '' };
  const share = useMutation({
    mutationFn: (shared: boolean) => dataOf(api.PATCH('/api/threads/{thread_id}', { params: { path }, body: { shared } })),
    onSuccess: renewed,
    onError: wrong,
  });
  const remove = useMutation({
    mutationFn: () => api.DELETE('/api/threads/{thread_id}', { params: { path } }),
    onSuccess: () => {
      onReplace(undefined);
      return renewed();
    },
    onError: wrong,
  });
  if (threads.isError) return <ErrorNotice error={threads.error} onRetry={() => void threads.refetch()} />;
  if (threads.data === undefined || chat === 'last') return null;
  return (
    <div className={styles.panel}>
      <div className={styles.head}>
        <select aria-label="Conversation" value={threadId ?? ''} onChange={(event) => onOpen(event.target.value === '' ? undefined : event.target.value)}>
          <option value="">New conversation</option>
          {threadId !== undefined && chosen === undefined && <option value={threadId}>…</option>}
          {threads.data.items.map((one) => (
            <option key={one.id} value={one.id}>
              {visibleText(one.title ?? 'Without a title')} · {ago(one.updated_at)}
              {one.mine ? '' : ' · another person’s'}
            </option>
          ))}
        </select>
        {canWrite && chosen?.mine === true && (
          <>
            <Button kind="quiet" aria-pressed={chosen.shared} disabled={share.isPending} onClick={() => share.mutate(!chosen.shared)}>
              {chosen.shared ? 'Shared' : 'Share'}
            </Button>
            <Confirm words="Delete" question={`Delete “${visibleText(chosen.title ?? '')}”?`} onSure={() => remove.mutate()} />
          </>
        )}
      </div>
      {fields}
      {threadId === undefined ? (
        <div className={styles.start}>
          <h2>Chat about this document</h2>
          <p className="muted">
            “Make a schema of this”, “extract”, “set total to 279.84”, “tag it @paid”, “what is the due date?” Changes need
            your OK unless you turn that off below.
          </p>
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
          onSaid={async (said) => {
            await Promise.all([renewed(), queries.invalidateQueries({ queryKey: ['thread', said] })]);
            if (said !== threadId) onReplace(said);
          }}
        />
      )}
    </div>
  );
}

/** Whether a call of a conversation, or of a run that one of its calls has started, waits for approval. */
function useAwaitsApproval(threadId: string | undefined): boolean {
  const thread = useInfiniteQuery({ ...threadQuery(threadId ?? ''), enabled: threadId !== undefined });
  const waiting = useQuery(waitingQuery);
  const runs = new Set(thread.data?.pages.flatMap((page) => page.turns.map((turn) => turn.run_id)));
  return waiting.data?.items.some((one) => (threadId !== undefined && one.thread_id === threadId) || (one.parent_run_id !== null && runs.has(one.parent_run_id))) === true;
}

function ConversationContext({ threadId }: { threadId: string }) {
  const { data } = useQuery(workingStateQuery(threadId));
  if (data?.schema === undefined && data?.prompt === undefined) return <div />;
  return (
    <p className={`${styles.state} muted`}>
      {data.schema !== undefined && <span className="truncate">Schema: {visibleText(data.schema)}</span>}
      {data.prompt !== undefined && <span className="truncate">Prompt: {visibleText(data.prompt)}</span>}
    </p>
  );
}
