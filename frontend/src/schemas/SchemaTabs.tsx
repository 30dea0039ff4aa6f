/** Beside the fields of a schema: its prompts, its versions, and where it is used. */

import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { Plus } from 'lucide-react';
import { useState } from 'react';
import { api } from '../api/client';
import { Button } from '../components/ui/Button';
import { Form } from '../components/ui/Form';
import { EmptyState } from '../components/ui/EmptyState';
import { Field } from '../components/ui/Field';
import { Input, TextArea } from '../components/ui/Input';
import { ErrorNotice } from '../components/ui/Notice';
import { toast } from '../components/ui/Toast';
import { usePersonName } from '../session/people';
import { formatAge, formatNumber, formatTime, visibleText } from '../shared/format';
import { t } from '../shared/i18n';
import type { TableLink } from '../records/tableLinks';
import { Changes } from './DraftPanel';
import type { Shape } from './schemaModel';
import { schemaVersionQuery } from '../fields/extractionQueries';
import { promptsOfQuery, versionsQuery } from './schemaQueries';
import { refresh } from '../api/queryKeys';

const MAX_CHARACTERS = 20_000;

export function PromptsTab({ schemaId, name, canWrite }: { schemaId: string; name: string; canWrite: boolean }) {
  const prompts = useQuery(promptsOfQuery(schemaId));
  const [isNew, setNew] = useState(false);
  return (
    <div className="grid min-h-0 flex-1 content-start gap-4 overflow-y-auto p-4 sm:p-6">
      <p className="text-muted-foreground">{t('schemas.promptsHint')}</p>
      {prompts.isError && <ErrorNotice error={prompts.error} />}
      {prompts.data?.map((one) => (
        <PromptForm key={one.prompt_revid} prompt={one} canWrite={canWrite} schemaId={schemaId} />
      ))}
      {isNew && (
        <PromptForm
          prompt={{ id: null, name, content: '' }}
          canWrite
          schemaId={schemaId}
          onSaved={() => setNew(false)}
        />
      )}
      {canWrite && !isNew && (
        <div>
          <Button size="md" icon={Plus} onClick={() => setNew(true)}>
            {t('schemas.newPrompt')}
          </Button>
        </div>
      )}
    </div>
  );
}

interface PromptProps {
  prompt: { id: string | null; name: string; content: string };
  schemaId: string;
  canWrite: boolean;
  onSaved?: () => void;
}

function PromptForm({ prompt, schemaId, canWrite, onSaved }: PromptProps) {
  const queries = useQueryClient();
  const [name, setName] = useState(prompt.name);
  const [content, setContent] = useState(prompt.content);
  const isChanged = name !== prompt.name || content !== prompt.content;
  const save = useMutation({
    mutationFn: async () =>
      prompt.id === null
        ? api.post('/api/prompts', { body: { name, content, schema_id: schemaId, tag_ids: [] } })
        : api.patch('/api/prompts/{prompt_id}', { path: { prompt_id: prompt.id }, body: { name, content } }),
    onSuccess: async () => {
      await refresh(queries, 'prompts');
      toast(t('schemas.promptSaved'));
      onSaved?.();
    },
  });
  return (
    <Form className="grid gap-3 rounded-lg border border-border bg-card p-4" onSubmit={() => save.mutate()}>
      <Field label={t('schemas.promptName')}>
        <Input value={name} maxLength={200} disabled={!canWrite} onValueChange={setName} />
      </Field>
      <Field label={t('schemas.promptText')}>
        <TextArea
          rows={6}
          value={content}
          maxLength={MAX_CHARACTERS}
          disabled={!canWrite}
          onChange={({ target }) => setContent(target.value)}
        />
      </Field>
      {save.isError && <ErrorNotice error={save.error} />}
      {canWrite && (
        <div>
          <Button
            kind="main"
            size="md"
            type="submit"
            disabled={!isChanged || save.isPending || name.trim() === '' || content.trim() === ''}>
            {t('common.save')}
          </Button>
        </div>
      )}
    </Form>
  );
}

export function VersionsTab({ schemaId }: { schemaId: string }) {
  const versions = useQuery(versionsQuery(schemaId));
  const personName = usePersonName(true);
  const list = versions.data ?? [];
  const [shown, setShown] = useState<string | null>(null);
  return (
    <ol className="min-h-0 flex-1 overflow-y-auto">
      {versions.isError && <ErrorNotice error={versions.error} />}
      {list.map((one, at) => (
        <li key={one.schema_revid} className="border-b border-line px-4 py-2 sm:px-6">
          <button
            type="button"
            aria-expanded={shown === one.schema_revid}
            className="flex min-h-8 w-full flex-wrap items-center gap-x-3 text-left"
            onClick={() => setShown(shown === one.schema_revid ? null : one.schema_revid)}>
            <span className="font-medium">{t('schemas.version', { number: one.number })}</span>
            <span className="text-muted-foreground">{visibleText(one.name)}</span>
            <span className="flex-1" />
            <span className="text-xs text-muted-foreground" title={formatTime(one.changed_at)}>
              {one.changed_by !== null && `${personName(one.changed_by)}, `}
              {formatAge(one.changed_at)}
            </span>
          </button>
          {shown === one.schema_revid && (
            <div className="pb-2">
              <VersionChanges revid={one.schema_revid} before={list[at + 1]?.schema_revid ?? null} />
            </div>
          )}
        </li>
      ))}
    </ol>
  );
}

function VersionChanges({ revid, before }: { revid: string; before: string | null }) {
  const after = useQuery(schemaVersionQuery(revid)).data?.schema as Shape | undefined;
  const old = useQuery({ ...schemaVersionQuery(before ?? ''), enabled: before !== null }).data?.schema as
    | Shape
    | undefined;
  if (after === undefined || (before !== null && old === undefined)) return null;
  return <Changes before={old ?? {}} after={after} />;
}

export function UsedTab({ tables, documents }: { tables: readonly TableLink[]; documents: number }) {
  if (tables.length === 0) return <EmptyState title={t('schemas.unused')} text={t('schemas.unusedHint')} />;
  return (
    <div className="min-h-0 flex-1 overflow-y-auto p-4 sm:p-6">
      <p className="mb-3 text-muted-foreground">{t('common.documents', { count: documents })}</p>
      <ul className="divide-y divide-line rounded-lg border border-border bg-card">
        {tables.map((one) => (
          <li key={one.id}>
            <Link
              {...one.link}
              className="flex min-h-10 items-center justify-between gap-3 px-3 text-foreground no-underline hover:bg-hover">
              <span className="truncate font-medium">{one.name}</span>
              <span className="text-xs text-muted-foreground">{formatNumber(one.count)}</span>
            </Link>
          </li>
        ))}
      </ul>
    </div>
  );
}
