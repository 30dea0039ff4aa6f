/** What can be done with the chosen documents. */

import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { CircleCheck, Plus, RotateCcw, Tag as TagIcon, Trash2 } from 'lucide-react';
import { useState } from 'react';
import { api } from '../api/client';
import { startExtraction } from '../api/runs';
import type { ListedDocument, Tag } from '../api/types';
import { Button } from '../components/ui/Button';
import { Form } from '../components/ui/Form';
import { Input } from '../components/ui/Input';
import { errorMessage } from '../components/ui/Notice';
import { Popover } from '../components/ui/Popover';
import { itemClass } from '../components/ui/popup';
import { SelectionToolbar } from '../components/ui/SelectionToolbar';
import { toast } from '../components/ui/Toast';
import { actOnEach } from '../shared/actOnEach';
import { formatEstimate, formatNumber, visibleText } from '../shared/format';
import { t } from '../shared/i18n';
import { deleteDocuments } from './deletions';
import { tagsQuery } from './documentQueries';
import { refresh } from '../api/queryKeys';
import { useChange } from '../shared/useChange';

const NEW_COLOUR = '#5b6ee1';

interface Props {
  documents: readonly ListedDocument[];
  total: number;
  /** What reading one costs on average. null: not known. */
  cost: number | null;
  onChooseAll: () => void;
  onAddToTable: () => void;
  onClear: () => void;
}

export function DocumentBar({ documents, total, cost, onChooseAll, onAddToTable, onClear }: Props) {
  const queries = useQueryClient();
  const [done, setDone] = useState(0);
  const reload = () => {
    void refresh(queries, 'documents', 'document', 'extractions', 'records', 'tags', 'runs');
  };
  const run = useMutation({
    mutationFn: ({
      on,
      act,
    }: {
      on: readonly ListedDocument[];
      act: (one: ListedDocument) => Promise<unknown>;
      text: string;
    }) => actOnEach(on, act, setDone),
    onSuccess: ({ done: acted, failed }, { text }) => {
      reload();
      if (failed.length === 0) onClear();
      toast(
        failed.length === 0
          ? text
          : t('documents.bulk.failed', {
              done: acted.length,
              count: failed.length,
              reason: errorMessage(failed[0]!.error),
            }),
        { urgent: failed.length > 0 },
      );
    },
  });
  const readable = documents.filter(({ status }) => status === 'ready');
  const markable = documents.filter(({ stage }) => stage === 'extracted');
  const readAgain = ({ id, shown_extraction_id: shown }: ListedDocument) =>
    startExtraction(
      { document_id: id, ...(shown !== null && { extraction_id: shown }), background: readable.length > 1 },
      crypto.randomUUID(),
    );
  const mark = ({ shown_extraction_id: shown }: ListedDocument) =>
    api.post('/api/extractions/{extraction_id}/complete', { path: { extraction_id: shown! } });
  const count = documents.length;
  return (
    <SelectionToolbar
      className="absolute bottom-4 left-1/2 -translate-x-1/2"
      count={count}
      progress={run.isPending ? t('documents.bulk.progress', { done, count: run.variables.on.length }) : undefined}
      onClear={onClear}>
      {count < total && (
        <span className="mr-1 text-xs whitespace-nowrap text-muted-foreground">
          <span className="max-sm:hidden">{t('documents.bulk.of', { total: formatNumber(total) })} </span>
          <button type="button" className="min-h-6 text-link" onClick={onChooseAll}>
            {t('documents.bulk.all')}
          </button>
        </span>
      )}
      <Button kind="quiet" icon={Plus} disabled={run.isPending || readable.length === 0} onClick={onAddToTable}>
        {t('documents.bulk.addToTable')}
      </Button>
      <TagPicker
        disabled={run.isPending}
        onChoose={(tag) =>
          run.mutate({
            on: documents,
            act: ({ id, tags }) =>
              api.patch('/api/documents/{document_id}', {
                path: { document_id: id },
                body: { tags: [...new Set([...tags.map((one) => one.id), tag.id])] },
              }),
            text: t('documents.bulk.tagged', { count, name: visibleText(tag.name) }),
          })
        }
      />
      <Button
        kind="quiet"
        icon={RotateCcw}
        disabled={run.isPending || readable.length === 0}
        onClick={() =>
          run.mutate({ on: readable, act: readAgain, text: t('documents.bulk.reading', { count: readable.length }) })
        }>
        {cost === null || readable.length === 0
          ? t('tables.readAgain')
          : t('common.selection.readAgain', { cost: formatEstimate(cost * readable.length) })}
      </Button>
      <Button
        kind="quiet"
        icon={CircleCheck}
        disabled={run.isPending || markable.length === 0}
        onClick={() =>
          run.mutate({ on: markable, act: mark, text: t('documents.bulk.marked', { count: markable.length }) })
        }>
        {t('document.markReviewed')}
      </Button>
      <Button
        kind="quiet"
        danger
        icon={Trash2}
        disabled={run.isPending}
        onClick={() => {
          deleteDocuments(documents, reload);
          onClear();
        }}>
        {t('common.delete')}
      </Button>
    </SelectionToolbar>
  );
}

function TagPicker({ disabled, onChoose }: { disabled: boolean; onChoose: (tag: Pick<Tag, 'id' | 'name'>) => void }) {
  const tags = useQuery(tagsQuery);
  const [open, setOpen] = useState(false);
  const [name, setName] = useState('');
  const choose = (tag: Pick<Tag, 'id' | 'name'>) => {
    setOpen(false);
    onChoose(tag);
  };
  const create = useChange(
    ['tags'],
    () => api.post('/api/tags', { body: { name: name.trim(), color: NEW_COLOUR } }),
    (tag) => {
      setName('');
      choose(tag);
    },
  );
  const submit = () => {
    if (name.trim() !== '' && !create.isPending) create.mutate();
  };
  return (
    <Popover
      open={open}
      onOpenChange={setOpen}
      side="top"
      className="w-56"
      trigger={
        <Button kind="quiet" icon={TagIcon} disabled={disabled}>
          {t('documents.tag')}
        </Button>
      }>
      {tags.data?.items.map((tag) => (
        <button key={tag.id} type="button" className={`${itemClass} hover:bg-hover`} onClick={() => choose(tag)}>
          <span className="size-2 rounded-full" style={{ background: tag.color }} />
          <span className="truncate">{visibleText(tag.name)}</span>
        </button>
      ))}
      <Form className="mt-1 flex gap-1" onSubmit={submit}>
        <Input
          aria-label={t('documents.bulk.newTag')}
          placeholder={t('documents.bulk.newTag')}
          maxLength={200}
          value={name}
          onValueChange={setName}
        />
        <Button size="md" type="submit" icon={Plus} label={t('documents.bulk.newTag')} disabled={name.trim() === ''} />
      </Form>
    </Popover>
  );
}
