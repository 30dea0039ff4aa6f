/** Where a question is written, and which documents it is put to. Enter sends it, Shift-Enter begins a line. */

import { useMutation, useQuery } from '@tanstack/react-query';
import { useRef, useState } from 'react';
import { startQuestion, type Question } from '../api/runs';
import { tagsQuery } from '../documents/documentQueries';
import { Button } from '../shared/Button';
import { plain } from '../shared/format';
import { Failure } from '../shared/Notice';
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
    if (message.trim() === '' || ask.isPending) return;
    const filters = { ...(tag !== '' && { tags: [tag] }), ...(name.trim() !== '' && { filename: name.trim() }) };
    ask.mutate({
      message,
      ...(threadId !== undefined && { thread_id: threadId }),
      ...(Object.keys(filters).length > 0 && { filters }),
    });
  };
  return (
    <form
      className={styles.box}
      onSubmit={(event) => {
        event.preventDefault();
        send();
      }}
    >
      {ask.isError && <Failure error={ask.error} />}
      <textarea
        aria-label="Your question"
        placeholder={threadId === undefined ? 'Ask about all documents' : 'Ask further'}
        rows={2}
        maxLength={8000}
        value={message}
        autoFocus
        onChange={(event) => {
          setMessage(event.target.value);
          key.current = crypto.randomUUID(); // another question
        }}
        onKeyDown={(event) => {
          if (event.key !== 'Enter' || event.shiftKey || event.nativeEvent.isComposing) return;
          event.preventDefault();
          send();
        }}
      />
      <div className={styles.tools}>
        <label>
          <span className="unseen">Only documents with this tag</span>
          <select value={tag} onChange={(event) => setTag(event.target.value)}>
            <option value="">Any tag</option>
            {tags.data?.items.map((one) => (
              <option key={one.id} value={one.name}>
                {plain(one.name)}
              </option>
            ))}
          </select>
        </label>
        <input aria-label="Only documents whose name has" placeholder="Name has…" value={name} maxLength={255} onChange={(event) => setName(event.target.value)} />
        <Button kind="main" type="submit" disabled={ask.isPending || message.trim() === ''}>
          Ask
        </Button>
      </div>
    </form>
  );
}
