/** The conversations about one document: which one, what it takes for granted, what was said, and where one goes on. */

import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useEffect } from 'react';
import { answer, api } from '../api/client';
import { Conversation } from '../conversation/Conversation';
import { threadsQuery } from '../conversation/conversationQueries';
import { Button } from '../shared/Button';
import { Confirm } from '../shared/Confirm';
import { ago, plain } from '../shared/format';
import { Failure, sentenceOf } from '../shared/Notice';
import { tell } from '../shared/Toasts';
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
}

export function ChatPanel({ documentId, chat, onOpen, onReplace }: Props) {
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
  const wrong = (error: unknown) => tell(sentenceOf(error), { urgent: true });
  const path = { thread_id: threadId ?? '' };
  const share = useMutation({
    mutationFn: (shared: boolean) => answer(api.PATCH('/api/threads/{thread_id}', { params: { path }, body: { shared } })),
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
  if (threads.isError) return <Failure error={threads.error} again={() => void threads.refetch()} />;
  if (threads.data === undefined || chat === 'last') return null;
  return (
    <div className={styles.panel}>
      <div className={styles.head}>
        <select aria-label="Conversation" value={threadId ?? ''} onChange={(event) => onOpen(event.target.value === '' ? undefined : event.target.value)}>
          <option value="">New conversation</option>
          {threadId !== undefined && chosen === undefined && <option value={threadId}>…</option>}
          {threads.data.items.map((one) => (
            <option key={one.id} value={one.id}>
              {plain(one.title ?? 'Without a title')} · {ago(one.updated_at)}
              {one.mine ? '' : ' · another person’s'}
            </option>
          ))}
        </select>
        {chosen?.mine === true && (
          <>
            <Button kind="quiet" aria-pressed={chosen.shared} disabled={share.isPending} onClick={() => share.mutate(!chosen.shared)}>
              {chosen.shared ? 'Shared' : 'Share'}
            </Button>
            <Confirm words="Delete" question={`Delete “${plain(chosen.title ?? '')}”?`} onSure={() => remove.mutate()} />
          </>
        )}
      </div>
      {threadId === undefined ? (
        <div className={styles.start}>
          <h2>Talk about this document</h2>
          <p className="soft">
            “Make a schema of this”, “extract”, “set total to 279.84”, “tag it @paid”, “what is the due date?” Nothing is written
            before you approve it, unless you say so below.
          </p>
        </div>
      ) : (
        <>
          <TakenForGranted threadId={threadId} />
          <Conversation key={threadId} threadId={threadId} />
        </>
      )}
      {(chosen === undefined || chosen.mine) && (
        <ChatBox
          key={threadId ?? ''}
          documentId={documentId}
          threadId={threadId}
          onSaid={async (said) => {
            await Promise.all([renewed(), queries.invalidateQueries({ queryKey: ['thread', said] })]);
            if (said !== threadId) onReplace(said);
          }}
        />
      )}
    </div>
  );
}

function TakenForGranted({ threadId }: { threadId: string }) {
  const { data } = useQuery(workingStateQuery(threadId));
  if (data?.schema === undefined && data?.prompt === undefined) return <div />;
  return (
    <p className={`${styles.state} soft`}>
      {data.schema !== undefined && <span className="cut">Schema: {plain(data.schema)}</span>}
      {data.prompt !== undefined && <span className="cut">Prompt: {plain(data.prompt)}</span>}
    </p>
  );
}
