/** Where a question is written, and which documents it is put to. */

import { useMutation, useQuery } from '@tanstack/react-query';
import { useRef, useState } from 'react';
import { startQuestion, type Question } from '../api/runs';
import { MessageBox } from '../conversation/MessageBox';
import { tagsQuery } from '../documents/documentQueries';
import { visibleText } from '../shared/format';
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
  // An answer that was lost, and a second press, ask the same question once.
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
      label="Your question"
      placeholder={threadId === undefined ? 'Ask about all documents' : 'Ask further'}
      send="Ask"
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
        <span className="sr-only">Only documents with this tag</span>
        <select className={styles.tag} value={tag} onChange={(event) => setTag(event.target.value)}>
          <option value="">Any tag</option>
          {tags.data?.items.map((one) => (
            <option key={one.id} value={one.name}>
              {visibleText(one.name)}
            </option>
          ))}
        </select>
      </label>
      <input
        className={styles.name}
        aria-label="Only documents whose name has"
        placeholder="Name has…"
        value={name}
        maxLength={255}
        onChange={(event) => setName(event.target.value)}
      />
    </MessageBox>
  );
}
