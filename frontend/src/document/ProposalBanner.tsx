/** An agent's suggestion for a document (a schema, a prompt and an extraction), to accept or reject as one. */

import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { dataOf, api } from '../api/client';
import { startProposal } from '../api/runs';
import type { AutoCreation, DocumentDetails } from '../api/types';
import { tagsQuery } from '../documents/documentQueries';
import { runStatusText } from '../runs/runStatusText';
import { Replay } from '../runs/Replay';
import { RunStep } from '../runs/RunStep';
import { useRun } from '../runs/useRun';
import { Button } from '../components/ui/Button';
import { codeText } from '../shared/codeText';
import { visibleText } from '../shared/format';
import { t } from '../shared/i18n';
import { errorMessage } from '../components/ui/Notice';
import { toast } from '../components/ui/Toast';
import { typeLabel } from './fields/labels';
import { proposedSchemaQuery } from './documentPageQueries';
import styles from './ProposalBanner.module.css';
import { schemaFields } from './schemaFields';

export function ProposalBanner({ document, canWrite }: { document: DocumentDetails; canWrite: boolean }) {
  const { auto_create: proposal } = document;
  if (proposal === null || proposal.status === 'accepted' || proposal.status === 'rejected') return null;
  return (
    <section className={styles.banner} aria-label={t('document.suggestion.title')}>
      {proposal.status === 'running' && <Running documentId={document.id} runId={proposal.run_id} />}
      {proposal.status === 'proposed' && <Proposed document={document} proposal={proposal} canWrite={canWrite} />}
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
      await Promise.all(
        [['document', documentId], ['documents'], ['extractions'], ['schemas'], ['prompts'], ['suggestions']].map(
          (queryKey) => queries.invalidateQueries({ queryKey }),
        ),
      );
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

function Proposed({
  document,
  proposal,
  canWrite,
}: {
  document: DocumentDetails;
  proposal: AutoCreation;
  canWrite: boolean;
}) {
  const documentId = document.id;
  const [tag, setTag] = useState('');
  const tags = useQuery(tagsQuery);
  const queries = useQueryClient();
  const schema = useQuery(proposedSchemaQuery(proposal));
  const decide = useMutation({
    mutationFn: async (accepted: boolean) => {
      const params = { path: { document_id: documentId } };
      if (!accepted) return dataOf(api.POST('/api/documents/{document_id}/auto_create/reject', { params }));
      return dataOf(
        api.POST('/api/documents/{document_id}/auto_create/accept', {
          params,
          body: { tags: tag === '' ? [] : [tag] },
        }),
      );
    },
    onSuccess: async (_, accepted) => {
      toast(t(accepted ? 'document.suggestion.accepted' : 'document.suggestion.rejected'));
      await Promise.all(
        [
          ['document'],
          ['documents'],
          ['extractions'],
          ['extraction'],
          ['schemas'],
          ['prompts'],
          ['tags'],
          ['suggestions'],
        ].map((queryKey) => queries.invalidateQueries({ queryKey })),
      );
    },
    onError: (error) => toast(errorMessage(error), { urgent: true }),
  });
  const fields = schema.data === undefined ? [] : schemaFields(schema.data.schema);
  return (
    <>
      <details>
        <summary>
          {schema.data === undefined
            ? t('document.suggestion.title')
            : t(
                proposal.matched === null ? 'document.suggestion.suggestedSchema' : 'document.suggestion.matchedSchema',
                { name: visibleText(schema.data.name), count: fields.length },
              )}
        </summary>
        <ul className={styles.fields}>
          {fields.map((one) => (
            <li key={one.path}>
              <code>{visibleText(one.path)}</code> <span className="muted">{typeLabel(one.type)}</span>{' '}
              {visibleText(one.description)}
            </li>
          ))}
        </ul>
      </details>
      <Replay runId={proposal.run_id} />
      {canWrite && (
        <>
          <select
            aria-label={t('document.suggestion.tag')}
            value={tag}
            onChange={(event) => setTag(event.target.value)}>
            <option value="">{t('document.suggestion.noTag')}</option>
            {tags.data?.items.map((one) => (
              <option key={one.id} value={one.id}>
                {visibleText(one.name)}
              </option>
            ))}
          </select>
          <Button kind="main" disabled={decide.isPending} onClick={() => decide.mutate(true)}>
            {t('common.accept')}
          </Button>
          <Button disabled={decide.isPending} onClick={() => decide.mutate(false)}>
            {t('common.reject')}
          </Button>
        </>
      )}
    </>
  );
}

function Failed({ documentId, proposal, canWrite }: { documentId: string; proposal: AutoCreation; canWrite: boolean }) {
  const { error } = proposal;
  const queries = useQueryClient();
  const again = useMutation({
    mutationFn: () => startProposal(documentId, crypto.randomUUID()),
    onSuccess: () => queries.invalidateQueries({ queryKey: ['document', documentId] }),
    onError: (problem) => toast(errorMessage(problem), { urgent: true }),
  });
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
