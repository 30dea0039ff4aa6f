/** The box for a message about a document. `@` mentions a schema, prompt, tag, extraction or another document: the agent
 * gets its full content. */

import { useMutation, useQuery } from '@tanstack/react-query';
import { useId, useLayoutEffect, useRef, useState, type KeyboardEvent } from 'react';
import { startTurn } from '../api/runs';
import type { ToolNames } from '../api/types';
import { ChevronDown } from 'lucide-react';
import { Button } from '../components/ui/Button';
import { Checkbox } from '../components/ui/Checkbox';
import { Popover } from '../components/ui/Popover';
import { Chips, MessageBox } from '../conversation/MessageBox';
import styles from './Chat.module.css';
import { toolName } from '../run/toolText';
import { useOrganisation } from '../session/role';
import { t } from '../shared/i18n';
import { ModelInput } from '../shared/ModelInput';
import { chatToolsQuery, suggestionsQuery } from './chatQueries';
import { MentionList } from './MentionList';
import { MAX_MENTIONS, mentionAt, mentionedIn, withMention, type Mention } from './mentions';

interface Props {
  documentId: string;
  threadId: string | undefined;
  /** A call of this conversation waits for approval: another message would cancel it. */
  isWaiting: boolean;
  onSent: (threadId: string) => Promise<void>;
}

export function ChatBox({ documentId, threadId, isWaiting, onSent }: Props) {
  const [text, setText] = useState('');
  const [caret, setCaret] = useState(0);
  const [chosen, setChosen] = useState<readonly Mention[]>([]);
  const [active, setActive] = useState(0);
  const [dismissed, setDismissed] = useState<number | null>(null);
  const [wantsAsking, setWantsAsking] = useState(true);
  const tools = useQuery(chatToolsQuery).data;
  const alwaysAsks = tools?.always_ask === true;
  const asks = wantsAsking || alwaysAsks;
  const approved = useOrganisation()?.auto_approved_tools ?? [];
  const [model, setModel] = useState('');
  const area = useRef<HTMLTextAreaElement>(null);
  /** The caret position to restore after a mention was inserted. */
  const moveTo = useRef<number | null>(null);
  const listId = useId();
  // Idempotency key: a retry or a second click sends the message once.
  const key = useRef(crypto.randomUUID());

  const typed = mentionAt(text, caret);
  const mentioned = mentionedIn(text, chosen);
  const isOpen = typed !== null && typed.from !== dismissed && mentioned.length < MAX_MENTIONS;
  const suggestions = useQuery({ ...suggestionsQuery(documentId, typed?.word ?? ''), enabled: isOpen });
  const shown = isOpen ? (suggestions.data ?? []) : [];

  const send = useMutation({
    mutationFn: async () => {
      const mentions = mentioned.map(({ type, id }) => ({ type, id }));
      const body = {
        document_id: documentId,
        message: text,
        mentions,
        ...(threadId !== undefined && { thread_id: threadId }),
      };
      const { threadId: id } = await startTurn(
        { ...body, approval: asks ? 'ask' : 'auto', ...(model !== '' && { model }) },
        key.current,
      );
      key.current = crypto.randomUUID();
      setText('');
      setChosen([]);
      await onSent(id);
    },
  });

  useLayoutEffect(() => {
    if (moveTo.current === null) return;
    area.current?.focus();
    area.current?.setSelectionRange(moveTo.current, moveTo.current);
    moveTo.current = null;
  }, [text]);

  const change = (next: string, at: number) => {
    setText(next);
    setCaret(at);
    setActive(0);
    if (mentionAt(next, at)?.from !== dismissed) setDismissed(null);
    key.current = crypto.randomUUID(); // another message
  };
  const choose = (one: Mention) => {
    if (typed === null) return;
    const next = withMention(text, typed.from, caret, one.name);
    change(next.text, next.caret);
    setChosen([...chosen, one]);
    moveTo.current = next.caret;
  };
  const onKey = (event: KeyboardEvent): boolean => {
    if (shown.length === 0 || typed === null) return false;
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const one = shown[active];
    if (step !== undefined) setActive((active + step + shown.length) % shown.length);
    else if ((event.key === 'Enter' || event.key === 'Tab') && one !== undefined) choose(one);
    else if (event.key === 'Escape') setDismissed(typed.from);
    else return false;
    event.preventDefault();
    event.stopPropagation();
    return true;
  };

  return (
    <MessageBox
      label={t('chat.message')}
      placeholder={t('chat.placeholder')}
      send={t('chat.send')}
      value={text}
      isPending={send.isPending}
      blocked={isWaiting ? t('chat.decideFirst') : undefined}
      error={send.error}
      onChange={change}
      onSend={() => send.mutate()}
      onKey={onKey}
      above={
        shown.length > 0 ? (
          <MentionList id={listId} items={shown} active={active} onChoose={choose} />
        ) : (
          threadId === undefined &&
          text === '' && (
            <Chips
              label={t('chat.examples.title')}
              texts={[t('chat.examples.schema'), t('chat.examples.extract'), t('chat.examples.due')]}
              onChoose={(one) => {
                change(one, one.length);
                moveTo.current = one.length;
              }}
            />
          )
        )
      }
      textarea={{
        ref: area,
        role: 'combobox',
        'aria-autocomplete': 'list',
        'aria-expanded': shown.length > 0,
        'aria-controls': listId,
        ...(shown.length > 0 && { 'aria-activedescendant': `${listId} ${active}` }),
        onSelect: (event) => setCaret(event.currentTarget.selectionStart),
      }}>
      <Popover
        side="top"
        className="grid w-80 gap-2"
        trigger={
          <Button kind="quiet" className="text-muted-foreground">
            {t(asks ? 'chat.asks' : 'chat.asksNot')} <ChevronDown size={14} aria-hidden="true" />
          </Button>
        }>
        <Checkbox checked={asks} disabled={alwaysAsks} onChange={setWantsAsking}>
          {t('chat.askFirst')}
        </Checkbox>
        {alwaysAsks && <p className="text-muted-foreground">{t('chat.alwaysAsks')}</p>}
        {tools !== undefined && (
          <NeedsApproval tools={tools} asksFor={(tool) => asks && (alwaysAsks || !approved.includes(tool))} />
        )}
      </Popover>
      <ModelInput value={model} onChange={setModel} />
      {mentioned.length > 0 && (
        <ul className={styles.mentioned} aria-label={t('chat.mentioned')}>
          {mentioned.map((one) => (
            <li key={one.id}>
              <span className="muted">{t(`chat.mentionTypes.${one.type}`)}</span>{' '}
              <span className="truncate">{one.name}</span>
            </li>
          ))}
        </ul>
      )}
    </MessageBox>
  );
}

/** Which tools need approval, and which run right away. */
function NeedsApproval({ tools, asksFor }: { tools: ToolNames; asksFor: (tool: string) => boolean }) {
  const named = (names: readonly string[]) => [...new Set(names.map(toolName))].join(', ');
  const asked = tools.read_write.filter(asksFor);
  return (
    <>
      <p className="text-xs">
        {asked.length > 0 ? <b>{t('chat.needsApproval')}</b> : t('chat.nothingNeedsApproval')} {named(asked)}
      </p>
      <p className="text-xs">
        <b>{t('chat.runsAtOnce')}</b> {named([...tools.read_only, ...tools.read_write.filter((one) => !asksFor(one))])}
      </p>
    </>
  );
}
