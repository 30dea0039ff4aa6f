/** An agent's suggestion for a document (a schema, a prompt and an extraction), to accept or reject as one. */

import { useQueries, useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { api } from '../api/client';
import { startProposal } from '../api/runs';
import type { AutoCreation, DocumentDetails, StackColumn } from '../api/types';
import { documentQuery, tagsQuery } from '../documents/documentQueries';
import { NewTable } from '../documents/NewTable';
import type { Placing } from '../documents/placing';
import { runStatusText } from '../run/runStatusText';
import { Replay } from '../run/Replay';
import { RunStep } from '../run/RunStep';
import { useRun } from '../run/useRun';
import { Button } from '../components/ui/Button';
import { codeText } from '../shared/codeText';
import { visibleText } from '../shared/format';
import { t } from '../shared/i18n';
import { toast } from '../components/ui/Toast';
import { Select } from '../components/ui/Select';
import { useShortcut } from '../shared/shortcuts/useShortcut';
import { displayValue } from '../fields/fieldValue';
import { pathLabel } from '../fields/labels';
import { pathSteps, valueAt } from '../fields/paths';
import { extractionQuery, proposedSchemaQuery } from '../fields/extractionQueries';
import { type SchemaField, schemaFields, withTitles } from '../fields/schemaFields';
import { refresh, type Subject } from '../api/queryKeys';
import { useChange } from '../shared/useChange';

const ACCEPT = { id: 'approval.approve', keys: 'a' } as const;
const REJECT = { id: 'approval.reject', keys: 'r' } as const;
/** What a decision changes. */
const DECIDED: readonly Subject[] = [
  'document',
  'documents',
  'extractions',
  'extraction',
  'schemas',
  'prompts',
  'tags',
  'suggestions',
  'inbox',
];

interface Props {
  document: DocumentDetails;
  canWrite: boolean;
  /** The documents with the same suggestion, newest first: the values of some are shown. Absent: they are beside it. */
  alike?: readonly string[];
  onDecided?: () => void;
}

export function Suggestion(props: Props) {
  const { document, canWrite } = props;
  const { auto_create: proposal } = document;
  if (proposal === null || proposal.status === 'accepted' || proposal.status === 'rejected') return null;
  return (
    <section
      className="grid min-w-0 gap-3 rounded-lg border border-border bg-card p-3"
      aria-label={t('document.suggestion.title')}>
      {proposal.status === 'running' && <Running documentId={document.id} runId={proposal.run_id} />}
      {proposal.status === 'proposed' && <Proposed {...props} proposal={proposal} />}
      {proposal.status === 'failed' && <Failed documentId={document.id} proposal={proposal} canWrite={canWrite} />}
    </section>
  );
}

function Running({ documentId, runId }: { documentId: string; runId: string }) {
  const queries = useQueryClient();
  const { state } = useRun(runId);
  const hasEnded = state.phase === 'complete' || state.phase === 'failed';
  // Load the document again: it has the result.
  useQuery({
    queryKey: ['proposal ended', runId],
    queryFn: async () => {
      await refresh(queries, ['document', documentId], 'documents', 'extractions', 'schemas', 'prompts', 'suggestions');
      return true;
    },
    enabled: hasEnded,
  });
  return (
    <details>
      <summary>
        <span className="truncate" role="status">
          {t('document.suggestion.drafting', { status: runStatusText(state) })}
        </span>
      </summary>
      {state.steps.map((step) => (
        <RunStep key={step.key} step={step} />
      ))}
    </details>
  );
}

/** Documents that are shown, the first ones that were suggested. */
const SHOWN = 5;

function Proposed({ document, proposal, canWrite, alike, onDecided }: Props & { proposal: AutoCreation }) {
  const hasFields = alike !== undefined;
  const ids = alike ?? [document.id];
  const [tag, setTag] = useState('');
  const tags = useQuery(tagsQuery);
  const schema = useQuery(proposedSchemaQuery(proposal));
  const fields = schema.data === undefined ? [] : schemaFields(schema.data.schema);
  const leaves = fields.filter((one) => one.type !== 'object' && !one.path.includes('[*]'));
  const shown = useQueries({ queries: hasFields ? ids.slice(-SHOWN).map(documentQuery) : [] }).flatMap(
    ({ data }) => data ?? [],
  );
  const extractions = shown.map((one) => one.auto_create?.extraction_id ?? '');
  const values = useQueries({ queries: extractions.map((id) => ({ ...extractionQuery(id), enabled: id !== '' })) });
  // A table that is there already keeps its name and columns.
  const isNew = shown.some((one) => one.auto_create?.matched === null);
  const [edited, setEdited] = useState<Edited | null>(null);
  const placing = edited ?? {
    name: visibleText(schema.data?.name ?? ''),
    columns: leaves.map((one) => {
      const name = columnName(one.path, fields);
      return { column: { name, type: columnType(one.type) }, name };
    }),
  };
  const save = async () => {
    if (edited === null || schema.data === undefined) return;
    const titles = leaves.flatMap(({ path }, at) => {
      const { column, name } = edited.columns[at]!;
      return column.name === name ? [] : [[path, name] as const];
    });
    await api.patch('/api/schemas/{schema_id}', {
      path: { schema_id: schema.data.id },
      header: { 'If-Match': `"${schema.data.schema_revid}"` },
      body: {
        ...(edited.name.trim() !== '' && { name: edited.name.trim() }),
        ...(titles.length > 0 && { schema: withTitles(schema.data.schema, new Map(titles)) }),
      },
    });
    setEdited(null);
  };
  const decide = useChange(
    DECIDED,
    async (accepted: boolean) => {
      if (accepted) await save();
      // The first one made the schema that the others have.
      for (const id of ids.toReversed()) {
        const path = { document_id: id };
        if (accepted)
          await api.post('/api/documents/{document_id}/auto_create/accept', {
            path,
            body: { tags: tag === '' ? [] : [tag] },
          });
        else await api.post('/api/documents/{document_id}/auto_create/reject', { path });
      }
    },
    (_, accepted) => {
      onDecided?.();
      toast(t(accepted ? 'document.suggestion.accepted' : 'document.suggestion.rejected'));
    },
  );
  const isOff = decide.isPending || !canWrite;
  useShortcut(ACCEPT, () => decide.mutate(true), hasFields && !isOff);
  useShortcut(REJECT, () => decide.mutate(false), hasFields && !isOff);
  return (
    <>
      <h2 className="text-sm font-semibold">
        {schema.data === undefined
          ? t('document.suggestion.title')
          : ids.length > 1
            ? t('document.suggestion.alike', { count: ids.length, columns: leaves.length })
            : t(
                proposal.matched === null ? 'document.suggestion.suggestedSchema' : 'document.suggestion.matchedSchema',
                { name: visibleText(schema.data.name), count: leaves.length },
              )}
      </h2>
      {hasFields && leaves.length > 0 && (
        <fieldset className="contents" disabled={isOff || !isNew}>
          <NewTable
            group={{
              rows: shown.map((one, row) => ({
                document_id: one.id,
                filename: one.filename,
                values: Object.fromEntries(
                  leaves.map((leaf, at) => [
                    placing.columns[at]!.column.name,
                    plainValue(valueAt(values[row]?.data?.extracted_fields, pathSteps(leaf.path) ?? ['']), leaf),
                  ]),
                ),
              })),
            }}
            placing={placing}
            onChange={setEdited}
          />
        </fieldset>
      )}
      <div className="flex flex-wrap items-center gap-2 max-sm:[&_button]:min-h-11">
        <Button kind="main" keys={hasFields ? 'A' : undefined} disabled={isOff} onClick={() => decide.mutate(true)}>
          {t('common.accept')}
        </Button>
        <Button keys={hasFields ? 'R' : undefined} disabled={isOff} onClick={() => decide.mutate(false)}>
          {t('common.reject')}
        </Button>
        {canWrite && (tags.data?.items.length ?? 0) > 0 && (
          <Select
            kind="quiet"
            label={t('document.suggestion.tag')}
            value={tag}
            options={[
              { value: '', label: t('document.suggestion.noTag') },
              ...tags.data!.items.map((one) => ({ value: one.id, label: visibleText(one.name) })),
            ]}
            onChange={setTag}
          />
        )}
      </div>
      <Replay runId={proposal.run_id} label={t('runs.howSuggested')} />
    </>
  );
}

type Edited = Pick<Placing, 'name' | 'columns'>;

/** "Vendor" for `vendor.name`. */
function columnName(path: string, fields: readonly SchemaField[]): string {
  const group = path.replace(/\.name$/, '');
  return pathLabel(fields.some((one) => one.path === `${group}.name`) ? group : path, fields);
}

function columnType(type: string): StackColumn['type'] {
  return type === 'number' || type === 'integer' ? 'number' : type === 'date' ? 'date' : 'text';
}

/** Return a list or a boolean in words. */
function plainValue(value: unknown, field: SchemaField): unknown {
  return typeof value === 'object' || typeof value === 'boolean' ? value && displayValue(value, field) : value;
}

function Failed({ documentId, proposal, canWrite }: { documentId: string; proposal: AutoCreation; canWrite: boolean }) {
  const { error } = proposal;
  const again = useChange([['document', documentId]], () => startProposal(documentId, crypto.randomUUID()));
  return (
    <>
      <p>
        {t('document.suggestion.failed', {
          reason: codeText('runErrors', proposal.error_code, error === null ? '' : visibleText(error)),
        })}
      </p>
      <Replay runId={proposal.run_id} />
      {canWrite && (
        <Button disabled={again.isPending} onClick={() => again.mutate()}>
          {t('common.tryAgain')}
        </Button>
      )}
    </>
  );
}
