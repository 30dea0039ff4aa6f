/** The list of conversations, the newest first. */

import { Ellipsis, Plus, Trash2 } from 'lucide-react';
import { useState } from 'react';
import { api } from '../api/client';
import type { ThreadSummary } from '../api/types';
import { Button } from '../components/ui/Button';
import { cn } from '../components/ui/cn';
import { ConfirmDialog } from '../components/ui/Confirm';
import { Menu, MenuItem } from '../components/ui/Menu';
import { usePersonName } from '../session/people';
import { formatAge, visibleText } from '../shared/format';
import { t } from '../shared/i18n';
import { useChange } from '../shared/useChange';

interface Props {
  threads: readonly ThreadSummary[];
  chosen: string | undefined;
  onOpen: (threadId: string) => void;
  onNew: () => void;
  /** The chosen conversation was deleted. */
  onGone: () => void;
  className?: string;
}

export function ThreadList({ threads, chosen, onOpen, onNew, onGone, className }: Props) {
  const personName = usePersonName();
  const [deleting, setDeleting] = useState<ThreadSummary | null>(null);
  const remove = useChange(
    ['threads'],
    (threadId: string) => api.delete('/api/threads/{thread_id}', { path: { thread_id: threadId } }),
    (_, threadId) => threadId === chosen && onGone(),
  );
  return (
    <nav aria-label={t('ask.threads')} className={cn('min-h-0 flex-col border-r border-border', className)}>
      <div className="flex h-12 shrink-0 items-center justify-between border-b border-border pr-2 pl-4">
        <h1 className="text-lg font-semibold">{t('areas.ask')}</h1>
        <Button kind="quiet" icon={Plus} label={t('ask.new')} onClick={onNew} />
      </div>
      {threads.length === 0 && <p className="p-4 text-muted-foreground">{t('ask.none')}</p>}
      <ul className="min-h-0 flex-1 overflow-y-auto p-2">
        {threads.map((one) => (
          <li
            key={one.id}
            className={cn(
              'group relative flex items-center rounded-md hover:bg-hover',
              one.id === chosen && 'bg-accent hover:bg-accent',
            )}>
            <button
              type="button"
              aria-current={one.id === chosen ? 'true' : undefined}
              className="min-h-11 min-w-0 flex-1 rounded-md py-1 pr-8 pl-2 text-left"
              onClick={() => onOpen(one.id)}>
              <span className={cn('block truncate', one.id === chosen && 'font-medium')}>{titleOf(one)}</span>
              <span className="block truncate text-xs text-muted-foreground">
                {formatAge(one.updated_at)}
                {one.shared &&
                  ` · ${one.mine ? t('chat.shared') : t('people.by', { person: personName(one.created_by) })}`}
              </span>
            </button>
            {one.mine && (
              <span className="absolute right-1 opacity-0 group-focus-within:opacity-100 group-hover:opacity-100 max-lg:opacity-100">
                <Menu trigger={<Button kind="quiet" icon={Ellipsis} label={t('ask.more', { name: titleOf(one) })} />}>
                  <MenuItem danger icon={Trash2} onChoose={() => setDeleting(one)}>
                    {t('common.delete')}
                  </MenuItem>
                </Menu>
              </span>
            )}
          </li>
        ))}
      </ul>
      {deleting !== null && (
        <ConfirmDialog
          open
          label={t('common.delete')}
          question={t('common.deleteQuestion', { name: titleOf(deleting) })}
          onClose={() => setDeleting(null)}
          onConfirm={() => remove.mutate(deleting.id)}
        />
      )}
    </nav>
  );
}

function titleOf({ title }: ThreadSummary): string {
  return visibleText(title ?? t('chat.untitled'));
}
