/** The box for a question: about which documents, and whether to answer it or only to find the passages. */

import { useInfiniteQuery, useMutation, useQuery } from '@tanstack/react-query';
import { CornerDownRight, SlidersHorizontal, TextSearch } from 'lucide-react';
import { useRef, useState } from 'react';
import { startQuestion, type Question } from '../api/runs';
import { Button } from '../components/ui/Button';
import { Field } from '../components/ui/Field';
import { Input } from '../components/ui/Input';
import { Popover } from '../components/ui/Popover';
import { Select } from '../components/ui/Select';
import { tooltip } from '../components/ui/Tooltip';
import { Chips, MessageBox } from '../conversation/MessageBox';
import { tagsQuery } from '../documents/documentQueries';
import { useCanWrite } from '../session/role';
import { visibleText } from '../shared/format';
import { t } from '../shared/i18n';
import { stackQuery, stacksQuery } from '../records/stackQueries';
import type { AskFilters } from './askView';

interface Props {
  threadId: string | undefined;
  filters: AskFilters;
  /** The text to start with. */
  question: string | undefined;
  /** Questions that can be asked with a click. */
  suggestions: readonly string[];
  /** Nothing was asked yet: the suggestions are a list below the box. */
  isStart: boolean;
  onFilters: (filters: AskFilters) => void;
  onAsked: (threadId: string) => Promise<void>;
  onFind: (words: string) => void;
  className?: string | undefined;
}

export function AskBox({
  threadId,
  filters,
  question,
  suggestions,
  isStart,
  onFilters,
  onAsked,
  onFind,
  className,
}: Props) {
  const [message, setMessage] = useState(question ?? '');
  const canWrite = useCanWrite();
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
  const send = (text: string) => {
    const { stack, tag, name } = filters;
    const asked = {
      ...(stack !== undefined && { stack_id: stack }),
      ...(tag !== undefined && { tags: [tag] }),
      ...(name !== undefined && { filename: name }),
    };
    ask.mutate({
      message: text,
      ...(threadId !== undefined && { thread_id: threadId }),
      ...(Object.keys(asked).length > 0 && { filters: asked }),
    });
  };
  const change = (text: string) => {
    setMessage(text);
    key.current = crypto.randomUUID(); // another question
  };
  const words = message.trim();
  const list = canWrite && suggestions.length > 0 && (
    <ul className="grid" aria-label={t('ask.suggestions')}>
      {suggestions.map((one) => (
        <li key={one} className="border-b border-line last:border-0">
          <button
            type="button"
            disabled={ask.isPending}
            className="flex min-h-9 w-full items-center gap-2.5 rounded-md px-3.5 text-left text-muted-foreground hover:bg-hover hover:text-foreground max-sm:min-h-11"
            onClick={() => send(one)}>
            <CornerDownRight size={14} className="shrink-0" aria-hidden="true" />
            {one}
          </button>
        </li>
      ))}
    </ul>
  );
  const chips = canWrite && suggestions.length > 0 && (
    <Chips label={t('ask.suggestions')} texts={suggestions} disabled={ask.isPending} onChoose={send} />
  );
  return (
    <MessageBox
      className={className}
      label={t('ask.question')}
      placeholder={t(threadId === undefined ? 'ask.placeholder' : 'ask.followUp')}
      send={t('ask.send')}
      value={message}
      isPending={ask.isPending}
      blocked={canWrite ? undefined : t('ask.viewer')}
      error={ask.error}
      onChange={change}
      onSend={() => send(message)}
      {...(isStart ? { below: list } : { above: chips })}>
      <StackSelect
        stackId={filters.stack}
        onChange={(stack) => {
          key.current = crypto.randomUUID(); // another question
          const { stack: _, ...others } = filters;
          onFilters(stack === undefined ? others : { ...others, stack });
        }}
      />
      <MoreFilters filters={filters} onFilters={onFilters} />
      <Button
        kind="quiet"
        icon={TextSearch}
        className="text-muted-foreground"
        disabled={words.length < 2}
        {...tooltip(t('ask.findText'))}
        onClick={() => onFind(words)}>
        <span className="max-sm:sr-only">{t('ask.find')}</span>
      </Button>
    </MessageBox>
  );
}

const ALL = '';

function StackSelect({
  stackId,
  onChange,
}: {
  stackId: string | undefined;
  onChange: (id: string | undefined) => void;
}) {
  const listed = useInfiniteQuery(stacksQuery).data?.pages.flatMap((page) => page.items) ?? [];
  const isListed = listed.some(({ id }) => id === stackId);
  const other = useQuery({ ...stackQuery(stackId ?? ''), enabled: stackId !== undefined && !isListed, retry: false });
  const stacks = other.data === undefined || isListed ? listed : [other.data, ...listed];
  if (stacks.length === 0 && stackId === undefined) return null;
  const isUnknown = stackId !== undefined && stacks.every(({ id }) => id !== stackId);
  return (
    <Select
      kind="quiet"
      className="max-w-52"
      label={t('ask.about')}
      value={stackId ?? ALL}
      options={[
        { value: ALL, label: t('document.all') },
        ...stacks.map(({ id, name }) => ({ value: id, label: visibleText(name) })),
        ...(isUnknown ? [{ value: stackId, label: t(other.isError ? 'ask.stackGone' : 'common.loading') }] : []),
      ]}
      onChange={(next) => onChange(next === ALL ? undefined : next)}
    />
  );
}

/** Only documents with a tag, or with a part in their name. */
function MoreFilters({ filters, onFilters }: Pick<Props, 'filters' | 'onFilters'>) {
  const tags = useQuery(tagsQuery).data?.items ?? [];
  const { tag, name, ...others } = filters;
  return (
    <Popover
      align="start"
      side="top"
      className="grid w-64 gap-3"
      title={t('ask.filters')}
      trigger={
        <Button
          kind="quiet"
          icon={SlidersHorizontal}
          className="text-muted-foreground"
          aria-pressed={tag !== undefined || name !== undefined}
          {...tooltip(t('ask.filters'))}>
          <span className="max-sm:sr-only">{t('inbox.filters')}</span>
        </Button>
      }>
      <Field label={t('documents.tag')}>
        <Select
          value={tag ?? ALL}
          options={[
            { value: ALL, label: t('common.allTags') },
            ...tags.map((one) => ({ value: one.name, label: visibleText(one.name) })),
          ]}
          onChange={(next) =>
            onFilters({ ...others, ...(name !== undefined && { name }), ...(next !== ALL && { tag: next }) })
          }
        />
      </Field>
      <Field label={t('ask.nameContains')}>
        <Input
          value={name ?? ''}
          maxLength={255}
          onChange={({ target: { value } }) =>
            onFilters({ ...others, ...(tag !== undefined && { tag }), ...(value !== '' && { name: value }) })
          }
        />
      </Field>
    </Popover>
  );
}
