/** Who checks a document, and what members wrote to each other about it and its values. */

import { queryOptions, useQuery } from '@tanstack/react-query';
import { MessageSquare, SendHorizontal, Trash2, UserPlus } from 'lucide-react';
import { useState } from 'react';
import { api } from '../api/client';
import type { Comment } from '../api/types';
import { Avatar } from '../session/Avatar';
import { Button } from '../components/ui/Button';
import { Form } from '../components/ui/Form';
import { cn } from '../components/ui/cn';
import { TextArea } from '../components/ui/Input';
import { Menu, MenuItem } from '../components/ui/Menu';
import { meQuery } from '../session/config';
import { useMembers, usePersonName } from '../session/people';
import { useCanWrite } from '../session/role';
import { formatTime, visibleText } from '../shared/format';
import { t } from '../shared/i18n';
import { pathLabel } from '../fields/labels';
import { useChange } from '../shared/useChange';

const EVERY_MS = 2000; // what others write appears without a click

const discussionQuery = (documentId: string) =>
  queryOptions({
    queryKey: ['discussion', documentId],
    queryFn: ({ signal }) =>
      api.get('/api/documents/{document_id}/discussion', { path: { document_id: documentId }, signal }),
    refetchInterval: EVERY_MS,
  });

interface Props {
  documentId: string;
  /** The path of the value that a comment is about; null: the document. */
  path: string | null;
  className?: string;
}

export function Discussion({ documentId, path, className }: Props) {
  const { data } = useQuery(discussionQuery(documentId));
  const canWrite = useCanWrite();
  const change = useDiscussionChange(documentId);
  const comments = data?.comments ?? [];
  const [isWriting, setWriting] = useState(false);
  const isShort = canWrite && !isWriting && comments.length === 0;
  if (data === undefined || (!canWrite && comments.length === 0 && data.assignee_id === null)) return null;
  return (
    <section aria-label={t('discussion.title')} className={cn('grid gap-2', className)}>
      <div className="flex min-h-7 items-center gap-2">
        <h2 className="flex-1 text-xs font-normal text-muted-foreground">{t('discussion.title')}</h2>
        <Assign documentId={documentId} assignee={data.assignee_id} canWrite={canWrite} />
        {isShort && (
          <Button kind="quiet" icon={MessageSquare} onClick={() => setWriting(true)}>
            {t('discussion.comment')}
          </Button>
        )}
      </div>
      {comments.length > 0 && (
        <ol className="grid gap-2.5" aria-live="polite">
          {comments.map((one) => (
            <CommentView
              key={one.id}
              comment={one}
              onDelete={() =>
                change.mutate(() =>
                  api.delete('/api/documents/{document_id}/comments/{comment_id}', {
                    path: { document_id: documentId, comment_id: one.id },
                  }),
                )
              }
            />
          ))}
        </ol>
      )}
      {canWrite && !isShort && (
        <NewComment
          path={path}
          takesFocus={isWriting}
          isPending={change.isPending}
          onSend={(body) =>
            change.mutateAsync(() =>
              api.post('/api/documents/{document_id}/comments', {
                path: { document_id: documentId },
                body: { body, ...(path !== null && { path }) },
              }),
            )
          }
        />
      )}
    </section>
  );
}

function useDiscussionChange(documentId: string) {
  return useChange([['discussion', documentId], 'inbox', ['document', documentId]], (send: () => Promise<unknown>) =>
    send(),
  );
}

interface AssignProps {
  documentId: string;
  assignee: string | null;
  canWrite: boolean;
}

/** Who checks the document: a menu of the members who may write. */
function Assign({ documentId, assignee, canWrite }: AssignProps) {
  const personName = usePersonName(true);
  const change = useDiscussionChange(documentId);
  const writers = useMembers().filter((one) => one.role !== 'viewer');
  const person = assignee !== null && (
    <>
      <Avatar id={assignee} />
      {personName(assignee)}
    </>
  );
  if (!canWrite) return <span className="flex items-center gap-1.5">{person}</span>;
  if (writers.length < 2 && assignee === null) return null;
  const assign = (userId: string | null) =>
    change.mutate(() =>
      api.put('/api/documents/{document_id}/assignee', {
        path: { document_id: documentId },
        body: { user_id: userId },
      }),
    );
  return (
    <Menu
      trigger={
        <Button
          kind="quiet"
          icon={assignee === null ? UserPlus : undefined}
          aria-label={assignee === null ? undefined : t('discussion.assignedTo', { person: personName(assignee) })}>
          {person || t('discussion.assign')}
        </Button>
      }>
      {writers.map((one) => (
        <MenuItem key={one.user_id} chosen={one.user_id === assignee} onChoose={() => assign(one.user_id)}>
          <Avatar id={one.user_id} />
          {personName(one.user_id)}
        </MenuItem>
      ))}
      <MenuItem chosen={assignee === null} onChoose={() => assign(null)}>
        {t('discussion.noOne')}
      </MenuItem>
    </Menu>
  );
}

function CommentView({ comment, onDelete }: { comment: Comment; onDelete: () => void }) {
  const personName = usePersonName(true);
  const me = useQuery(meQuery).data?.user_id;
  const { created_by: by, path } = comment;
  const name = by === null ? '' : personName(by);
  return (
    <li className="group flex gap-2">
      {by !== null && <Avatar id={by} />}
      <div className="min-w-0 flex-1">
        <p className="flex items-baseline gap-2">
          <b className="min-w-0 truncate font-medium">{name}</b>
          <span className="shrink-0 text-xs text-muted-foreground">{formatTime(comment.created_at)}</span>
          {path !== null && (
            <span className="min-w-0 truncate rounded-full bg-muted px-1.5 text-xs text-muted-foreground">
              {pathLabel(path)}
            </span>
          )}
        </p>
        <p className="wrap-anywhere whitespace-pre-wrap">{visibleText(comment.body)}</p>
      </div>
      {by === me && (
        <span className="opacity-0 group-focus-within:opacity-100 group-hover:opacity-100 max-lg:opacity-100">
          <Button kind="quiet" icon={Trash2} label={t('discussion.delete')} onClick={onDelete} />
        </span>
      )}
    </li>
  );
}

interface NewCommentProps {
  path: string | null;
  takesFocus: boolean;
  isPending: boolean;
  onSend: (body: string) => Promise<unknown>;
}

function NewComment({ path, takesFocus, isPending, onSend }: NewCommentProps) {
  const [body, setBody] = useState('');
  const label = path === null ? t('discussion.comment') : t('discussion.commentOn', { field: pathLabel(path) });
  const send = () => {
    if (body.trim() === '' || isPending) return;
    void onSend(body.trim()).then(
      () => setBody(''),
      () => undefined, // what was typed stays
    );
  };
  return (
    <Form className="flex items-end gap-1" onSubmit={send}>
      <TextArea
        autoFocus={takesFocus}
        aria-label={label}
        placeholder={label}
        rows={1}
        maxLength={5000}
        className="max-h-40 resize-none [field-sizing:content]"
        value={body}
        onChange={(event) => setBody(event.target.value)}
        onKeyDown={(event) => {
          if (event.key !== 'Enter' || event.shiftKey || event.nativeEvent.isComposing) return;
          event.preventDefault();
          send();
        }}
      />
      {body.trim() !== '' && (
        <Button
          kind="main"
          size="md"
          type="submit"
          icon={SendHorizontal}
          label={t('discussion.send')}
          disabled={isPending}
        />
      )}
    </Form>
  );
}
