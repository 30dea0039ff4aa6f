/** The box for a question, with filters for the documents that it is about. */

import { useInfiniteQuery, useMutation, useQuery } from '@tanstack/react-query';
import { useRef, useState } from 'react';
import { startQuestion, type Question } from '../api/runs';
import { MessageBox } from '../conversation/MessageBox';
import { tagsQuery } from '../documents/documentQueries';
import { visibleText } from '../shared/format';
import { t } from '../shared/i18n';
import { stackQuery, stacksQuery } from '../tables/stackQueries';
import styles from './Ask.module.css';

interface Props {
  threadId: string | undefined;
  /** undefined: all documents. */
  stackId: string | undefined;
  /** The text to start with. */
  question: string | undefined;
  onStack: (stackId: string | undefined) => void;
  onAsked: (threadId: string) => Promise<void>;
}

export function AskBox({ threadId, stackId, question, onStack, onAsked }: Props) {
  const [message, setMessage] = useState(question ?? '');
  const [tag, setTag] = useState('');
  const [name, setName] = useState('');
  const tags = useQuery(tagsQuery);
  const listed = useInfiniteQuery(stacksQuery).data?.pages.flatMap((page) => page.items) ?? [];
  const isListed = listed.some(({ id }) => id === stackId);
  const other = useQuery({ ...stackQuery(stackId ?? ''), enabled: stackId !== undefined && !isListed, retry: false });
  const stacks = other.data === undefined || isListed ? listed : [other.data, ...listed];
  const stack = stacks.find(({ id }) => id === stackId);
  // Idempotency key: a retry or a second click asks the same question once.
  const key = useRef(crypto.randomUUID());
  const ask = useMutation({
    mutationFn: async (question: Question) => {
      const { threadId: id } = await startQuestion(question, key.current);
      key.current = crypto.randomUUID();
      setMessage('');
      await onAsked(id);
    },
  });
  const send = () => {
    const filters = {
      ...(stackId !== undefined && { stack_id: stackId }),
      ...(tag !== '' && { tags: [tag] }),
      ...(name.trim() !== '' && { filename: name.trim() }),
    };
    ask.mutate({
      message,
      ...(threadId !== undefined && { thread_id: threadId }),
      ...(Object.keys(filters).length > 0 && { filters }),
    });
  };
  return (
    <MessageBox
      label={t('ask.question')}
      placeholder={
        threadId !== undefined
          ? t('ask.followUp')
          : stack === undefined
            ? t('ask.askAll')
            : t('ask.askStack', { name: visibleText(stack.name) })
      }
      send={t('ask.send')}
      value={message}
      isPending={ask.isPending}
      error={ask.error}
      onChange={(text) => {
        setMessage(text);
        key.current = crypto.randomUUID(); // another question
      }}
      onSend={send}>
      {(stacks.length > 0 || stackId !== undefined) && (
        <select
          className={styles.stack}
          aria-label={t('ask.about')}
          value={stackId ?? ''}
          onChange={({ target }) => {
            key.current = crypto.randomUUID(); // another question
            onStack(target.value === '' ? undefined : target.value);
          }}>
          <option value="">{t('document.all')}</option>
          {stacks.map((one) => (
            <option key={one.id} value={one.id}>
              {visibleText(one.name)}
            </option>
          ))}
          {stackId !== undefined && stack === undefined && (
            <option value={stackId}>{t(other.isError ? 'ask.stackGone' : 'common.loading')}</option>
          )}
        </select>
      )}
      <label>
        <span className="sr-only">{t('ask.onlyTag')}</span>
        <select className={styles.tag} value={tag} onChange={(event) => setTag(event.target.value)}>
          <option value="">{t('common.allTags')}</option>
          {tags.data?.items.map((one) => (
            <option key={one.id} value={one.name}>
              {visibleText(one.name)}
            </option>
          ))}
        </select>
      </label>
      <input
        className={styles.name}
        aria-label={t('ask.nameContains')}
        placeholder={t('ask.nameContains')}
        value={name}
        maxLength={255}
        onChange={(event) => setName(event.target.value)}
      />
    </MessageBox>
  );
}
