/** What stands beside the pages: the fields, what no field claims, or a conversation about the document. */

import { Tabs } from '@base-ui/react/tabs';
import { lazy, Suspense, type ReactNode } from 'react';
import { Loading } from '../shared/Loading';
import { useShortcut } from '../shared/shortcuts/useShortcut';
import styles from './DocumentPage.module.css';
import type { Place } from './documentView';

const ChatPanel = lazy(async () => ({ default: (await import('../chat/ChatPanel')).ChatPanel }));
const MISSED = { id: 'document.unmapped', area: 'Document', words: 'Fields, or what no field claims', keys: 'u' };
const TALK = { id: 'document.chat', area: 'Document', words: 'Fields, or a conversation', keys: 'c' };

interface Props {
  documentId: string;
  /** The conversation that the address names. */
  chat: string | undefined;
  fields: number;
  /** What no field claims, and whether it is shown. null: there are no fields yet. */
  unmapped: { isShown: boolean; count: string | null; panel: () => ReactNode } | null;
  onShow: (beside: Pick<Place, 'chat' | 'unmapped'>) => void;
  /** Another conversation, unless what is shown beside has changed since. */
  onReplaceChat: (chat: string) => void;
  /** The fields alone, beside a conversation. */
  fieldsBeside: ReactNode;
  canWrite: boolean;
  /** The fields: what is above them, and they. */
  children: ReactNode;
}

export function DocumentSidebar({ documentId, chat, fields, unmapped, onShow, onReplaceChat, fieldsBeside, canWrite, children }: Props) {
  const shown = chat !== undefined ? 'chat' : unmapped?.isShown === true ? 'unmapped' : 'fields';
  const show = (tab: string) => onShow(tab === 'chat' ? { chat: chat ?? 'last' } : tab === 'unmapped' ? { unmapped: true } : {});
  useShortcut(TALK, () => show(shown === 'chat' ? 'fields' : 'chat'));
  useShortcut(MISSED, () => show(shown === 'unmapped' ? 'fields' : 'unmapped'), unmapped !== null);
  return (
    <Tabs.Root className={styles.side} value={shown} onValueChange={(tab: string) => show(tab)}>
      <Tabs.List className={styles.tabs} aria-label="Document details">
        <Tabs.Tab className={styles.tab} value="fields">
          Fields{fields > 0 && <span className="muted"> {fields.toLocaleString()}</span>}
        </Tabs.Tab>
        {unmapped !== null && (
          <Tabs.Tab className={styles.tab} value="unmapped">
            Not claimed{unmapped.count !== null && <span className="muted"> {unmapped.count}</span>}
          </Tabs.Tab>
        )}
        <Tabs.Tab className={styles.tab} value="chat">
          Chat
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
