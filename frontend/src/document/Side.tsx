/** What stands beside the pages: the fields, or a conversation about the document. */

import { Tabs } from '@base-ui/react/tabs';
import { lazy, Suspense, type ReactNode } from 'react';
import { useShortcut } from '../shared/shortcuts/useShortcut';
import styles from './DocumentPage.module.css';

const ChatPanel = lazy(async () => ({ default: (await import('../chat/ChatPanel')).ChatPanel }));
const TALK = { id: 'document.chat', area: 'Document', words: 'Fields, or a conversation', keys: 'c' };

interface Props {
  documentId: string;
  /** The conversation that the address names. */
  chat: string | undefined;
  fields: number;
  onShow: (chat: string | undefined) => void;
  /** The fields: what is above them, and they. */
  children: ReactNode;
}

export function Side({ documentId, chat, fields, onShow, children }: Props) {
  const show = (tab: string) => onShow(tab === 'chat' ? (chat ?? 'last') : undefined);
  useShortcut(TALK, () => show(chat === undefined ? 'chat' : 'fields'));
  return (
    <Tabs.Root className={styles.side} value={chat === undefined ? 'fields' : 'chat'} onValueChange={(tab: string) => show(tab)}>
      <Tabs.List className={styles.tabs} aria-label="Beside the pages">
        <Tabs.Tab className={styles.tab} value="fields">
          Fields{fields > 0 && <span className="soft"> {fields.toLocaleString()}</span>}
        </Tabs.Tab>
        <Tabs.Tab className={styles.tab} value="chat">
          Chat
        </Tabs.Tab>
      </Tabs.List>
      <Tabs.Panel className={styles.beside} value="fields">
        {children}
      </Tabs.Panel>
      <Tabs.Panel className={styles.beside} value="chat">
        <Suspense>
          <ChatPanel documentId={documentId} chat={chat ?? 'last'} onOpen={(next) => onShow(next ?? 'new')} />
        </Suspense>
      </Tabs.Panel>
    </Tabs.Root>
  );
}
