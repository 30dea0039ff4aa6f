/** The box for a question, with filters for the documents that it is about. */

import { useMutation, useQuery } from '@tanstack/react-query';
import { useRef, useState } from 'react';
import { startQuestion, type Question } from '../api/runs';
import { MessageBox } from '../conversation/MessageBox';
import { tagsQuery } from '../documents/documentQueries';
import { visibleText } from '../shared/format';
import { t } from '../shared/i18n';
import styles from './Ask.module.css';

interface Props {
  threadId: string | undefined;
  onAsked: (threadId: string) => Promise<void>;
}

export function AskBox({ threadId, onAsked }: Props) {
  const [message, setMessage] = useState('');
  const [tag, setTag] = useState('');
  const [name, setName] = useState('');
  const tags = useQuery(tagsQuery);
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
    const filters = { ...(tag !== '' && { tags: [tag] }), ...(name.trim() !== '' && { filename: name.trim() }) };
    ask.mutate({
      message,
      ...(threadId !== undefined && { thread_id: threadId }),
      ...(Object.keys(filters).length > 0 && { filters }),
    });
  };
  return (
    <MessageBox
      label={t('ask.question')}
      placeholder={threadId === undefined ? t('ask.askAll') : t('ask.followUp')}
      send={t('ask.send')}
      value={message}
      isPending={ask.isPending}
      error={ask.error}
      onChange={(text) => {
        setMessage(text);
        key.current = crypto.randomUUID(); // another question
      }}
      onSend={send}
    >
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
