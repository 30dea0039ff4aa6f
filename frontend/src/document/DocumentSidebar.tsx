/** The sidebar of a document: its fields, unmapped text, or the chat. */

import { Tabs } from '@base-ui/react/tabs';
import { lazy, Suspense, type ReactNode } from 'react';
import { formatNumber } from '../shared/format';
import { t } from '../shared/i18n';
import { Loading } from '../components/ui/Loading';
import { useShortcut } from '../shared/shortcuts/useShortcut';
import styles from './DocumentPage.module.css';
import type { DocumentView } from './documentView';

const ChatPanel = lazy(async () => ({ default: (await import('../chat/ChatPanel')).ChatPanel }));
const UNMAPPED = { id: 'document.unmapped', keys: 'u' } as const;
const CHAT = { id: 'document.chat', keys: 'c' } as const;

interface Props {
  documentId: string;
  /** The conversation in the address. */
  chat: string | undefined;
  fields: number;
  /** Unmapped text, and whether it is shown. null: there are no fields yet. */
  unmapped: { isShown: boolean; count: string | null; panel: () => ReactNode } | null;
  onShow: (beside: Pick<DocumentView, 'chat' | 'unmapped'>) => void;
  /** Replace the conversation, unless the person has opened something else since. */
  onReplaceChat: (chat: string) => void;
  /** The fields, shown above a conversation. */
  fieldsBeside: ReactNode;
  canWrite: boolean;
  /** The Fields tab. */
  children: ReactNode;
}

export function DocumentSidebar({
  documentId,
  chat,
  fields,
  unmapped,
  onShow,
  onReplaceChat,
  fieldsBeside,
  canWrite,
  children,
}: Props) {
  const shown = chat !== undefined ? 'chat' : unmapped?.isShown === true ? 'unmapped' : 'fields';
  const show = (tab: string) =>
    onShow(tab === 'chat' ? { chat: chat ?? 'last' } : tab === 'unmapped' ? { unmapped: true } : {});
  useShortcut(CHAT, () => show(shown === 'chat' ? 'fields' : 'chat'));
  useShortcut(UNMAPPED, () => show(shown === 'unmapped' ? 'fields' : 'unmapped'), unmapped !== null);
  return (
    <Tabs.Root className={styles.side} value={shown} onValueChange={(tab: string) => show(tab)}>
      <Tabs.List className={styles.tabs} aria-label={t('document.details')}>
        <Tabs.Tab className={styles.tab} value="fields">
          {t('document.fields')}
          {fields > 0 && <span className="muted"> {formatNumber(fields)}</span>}
        </Tabs.Tab>
        {unmapped !== null && (
          <Tabs.Tab className={styles.tab} value="unmapped">
            {t('document.unmapped')}
            {unmapped.count !== null && <span className="muted"> {unmapped.count}</span>}
          </Tabs.Tab>
        )}
        <Tabs.Tab className={styles.tab} value="chat">
          {t('document.chat')}
        </Tabs.Tab>
      </Tabs.List>
      <Tabs.Panel className={styles.beside} value="fields">
        {children}
      </Tabs.Panel>
      {unmapped !== null && (
        <Tabs.Panel className={styles.beside} value="unmapped">
          <fieldset className={styles.plain} disabled={!canWrite}>
            <Suspense fallback={<Loading />}>{unmapped.panel()}</Suspense>
          </fieldset>
        </Tabs.Panel>
      )}
      <Tabs.Panel className={styles.beside} value="chat">
        <Suspense fallback={<Loading />}>
          {chat !== undefined && (
            <ChatPanel
              documentId={documentId}
              chat={chat}
              onOpen={(next) => onShow({ chat: next ?? 'new' })}
              onReplace={(next) => onReplaceChat(next ?? 'new')}
              fields={fieldsBeside}
              canWrite={canWrite}
            />
          )}
        </Suspense>
      </Tabs.Panel>
    </Tabs.Root>
  );
}
