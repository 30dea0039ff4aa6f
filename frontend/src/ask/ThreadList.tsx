/** The list of conversations, the newest first. */

import { useMutation, useQueryClient } from '@tanstack/react-query';
import { api } from '../api/client';
import type { ThreadSummary } from '../api/types';
import { usePersonName } from '../session/people';
import { Confirm } from '../components/ui/Confirm';
import { formatAge, visibleText } from '../shared/format';
import { t } from '../shared/i18n';
import { errorMessage } from '../components/ui/Notice';
import { toast } from '../components/ui/Toast';
import styles from './Ask.module.css';

interface Props {
  threads: readonly ThreadSummary[];
  chosen: string | undefined;
  onOpen: (threadId: string) => void;
  /** The chosen conversation was deleted. */
  onGone: () => void;
}

export function ThreadList({ threads, chosen, onOpen, onGone }: Props) {
  const queries = useQueryClient();
  const personName = usePersonName();
  const remove = useMutation({
    mutationFn: (threadId: string) =>
      api.DELETE('/api/threads/{thread_id}', { params: { path: { thread_id: threadId } } }),
    onSuccess: (_, threadId) => {
      if (threadId === chosen) onGone();
      return queries.invalidateQueries({ queryKey: ['threads'] });
    },
    onError: (error) => toast(errorMessage(error), { urgent: true }),
  });
  return (
    <ul className={styles.list}>
      {threads.map((one) => (
        <li key={one.id} className={styles.thread} aria-current={one.id === chosen ? 'true' : undefined}>
          <button type="button" className={styles.open} onClick={() => onOpen(one.id)}>
            <span className="truncate">{visibleText(one.title ?? t('chat.untitled'))}</span>
            <span className="muted">
              {formatAge(one.updated_at)}
              {one.shared &&
                ` · ${one.mine ? t('chat.shared') : t('people.by', { person: personName(one.created_by) })}`}
            </span>
          </button>
          {one.mine && (
            <Confirm
              label={t('common.delete')}
              question={t('common.deleteQuestion', { name: visibleText(one.title ?? t('chat.untitled')) })}
              onConfirm={() => remove.mutate(one.id)}
            />
          )}
        </li>
      ))}
    </ul>
  );
}
