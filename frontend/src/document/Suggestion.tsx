/** An agent's suggestion for a document (a schema, a prompt and an extraction), to accept or reject as one. */

import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { api } from '../api/client';
import { startProposal } from '../api/runs';
import type { AutoCreation, DocumentDetails } from '../api/types';
import { tagsQuery } from '../documents/documentQueries';
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
import { pathLabel, typeLabel } from '../fields/labels';
import { pathSteps, valueAt } from '../fields/paths';
import { extractionQuery, proposedSchemaQuery } from '../fields/extractionQueries';
import { schemaFields } from '../fields/schemaFields';
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
  /** Also the fields of the schema with their values, where they are not shown elsewhere. */
  hasFields?: boolean;
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

function Proposed({ document, proposal, canWrite, hasFields = false, onDecided }: Props & { proposal: AutoCreation }) {
  const documentId = document.id;
  const [tag, setTag] = useState('');
  const tags = useQuery(tagsQuery);
  const schema = useQuery(proposedSchemaQuery(proposal));
  const decide = useChange(
    DECIDED,
    (accepted: boolean): Promise<unknown> => {
      const path = { document_id: documentId };
      return accepted
        ? api.post('/api/documents/{document_id}/auto_create/accept', { path, body: { tags: tag === '' ? [] : [tag] } })
        : api.post('/api/documents/{document_id}/auto_create/reject', { path });
    },
    (_, accepted) => {
      onDecided?.();
      toast(t(accepted ? 'document.suggestion.accepted' : 'document.suggestion.rejected'));
    },
  );
  const fields = schema.data === undefined ? [] : schemaFields(schema.data.schema);
  const leaves = fields.filter((one) => one.type !== 'object');
  const values = useQuery({
    ...extractionQuery(proposal.extraction_id ?? ''),
    enabled: hasFields && proposal.extraction_id !== null,
  });
  const isOff = decide.isPending || !canWrite;
  useShortcut(ACCEPT, () => decide.mutate(true), hasFields && !isOff);
  useShortcut(REJECT, () => decide.mutate(false), hasFields && !isOff);
  return (
    <>
      <h2 className="text-sm font-semibold">
        {schema.data === undefined
          ? t('document.suggestion.title')
          : t(proposal.matched === null ? 'document.suggestion.suggestedSchema' : 'document.suggestion.matchedSchema', {
              name: visibleText(schema.data.name),
              count: leaves.length,
            })}
      </h2>
      {hasFields && (
        <dl>
          {leaves.map((one) => (
            <div
              key={one.path}
              title={visibleText(one.description)}
              className="grid min-h-8 grid-cols-[minmax(0,2fr)_minmax(0,3fr)_3.5rem] items-center gap-3 border-b border-line last:border-0">
              <dt className="truncate">{pathLabel(one.path, fields)}</dt>
              <dd className="truncate font-medium">
                {displayValue(valueAt(values.data?.extracted_fields, pathSteps(one.path) ?? ['']), one)}
              </dd>
              <dd className="text-right text-xs text-muted-foreground">{typeLabel(one.type)}</dd>
            </div>
          ))}
        </dl>
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
