/** What an agent has proposed for a document by itself (a schema, a prompt, an extraction), to accept or reject as one. */

import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { answer, api } from '../api/client';
import { startProposal } from '../api/runs';
import type { DocumentInFull } from '../api/types';
import { runSentence } from '../runs/runWords';
import { RunStep } from '../runs/RunStep';
import { useRun } from '../runs/useRun';
import { Button } from '../shared/Button';
import { count, plain } from '../shared/format';
import { sentenceOf } from '../shared/Notice';
import { tell } from '../shared/Toasts';
import styles from './ProposalBanner.module.css';
import { schemaFields } from './schemaFields';

type AutoCreation = NonNullable<DocumentInFull['auto_create']>;

export function ProposalBanner({ document }: { document: DocumentInFull }) {
  const { auto_create: proposal } = document;
  if (proposal === null || proposal.status === 'accepted' || proposal.status === 'rejected') return null;
  return (
    <section className={styles.banner} aria-label="Proposal">
      {proposal.status === 'running' && <Running documentId={document.id} runId={proposal.run_id} />}
      {proposal.status === 'proposed' && <Proposed documentId={document.id} proposal={proposal} />}
      {proposal.status === 'failed' && <Failed documentId={document.id} error={proposal.error} />}
    </section>
  );
}

function Running({ documentId, runId }: { documentId: string; runId: string }) {
  const queries = useQueryClient();
  const { state } = useRun(runId);
  const hasEnded = state.phase === 'complete' || state.phase === 'failed';
  // The document says what came of it.
  useQuery({
    queryKey: ['proposal ended', runId],
    queryFn: async () => {
      await Promise.all([['document', documentId], ['extractions'], ['schemas']].map((queryKey) => queries.invalidateQueries({ queryKey })));
      return true;
    },
    enabled: hasEnded,
  });
  return (
    <details>
      <summary>
        <span className="cut" role="status">
          A schema is being proposed. {runSentence(state)}
        </span>
      </summary>
      {state.steps.map((step) => (
        <RunStep key={step.key} step={step} />
      ))}
    </details>
  );
}

function Proposed({ documentId, proposal }: { documentId: string; proposal: AutoCreation }) {
  const queries = useQueryClient();
  const revid = proposal.schema_revid;
  const schema = useQuery({
    queryKey: ['schema version', revid],
    queryFn: ({ signal }) => answer(api.GET('/api/schema_versions/{schema_revid}', { params: { path: { schema_revid: revid! } }, signal })),
    enabled: revid !== null,
    staleTime: Infinity,
  });
  const decide = useMutation({
    mutationFn: (accepted: boolean) => {
      const params = { path: { document_id: documentId } };
      return answer(accepted ? api.POST('/api/documents/{document_id}/auto_create/accept', { params }) : api.POST('/api/documents/{document_id}/auto_create/reject', { params }));
    },
    onSuccess: async (_, accepted) => {
      tell(accepted ? 'The schema is kept, and what was extracted by it.' : 'The proposal is gone.');
      await Promise.all([['document'], ['documents'], ['extractions'], ['extraction'], ['schemas'], ['prompts'], ['tags']].map((queryKey) => queries.invalidateQueries({ queryKey })));
    },
    onError: (error) => tell(sentenceOf(error), { urgent: true }),
  });
  const fields = schema.data === undefined ? [] : schemaFields(schema.data.schema);
  const what = schema.data === undefined ? 'a schema' : `the schema “${plain(schema.data.name)}” (${count(fields.length, 'field')})`;
  return (
    <>
      <details>
        <summary>
          {proposal.matched === null
            ? `An agent proposes ${what}, and what it has extracted by it.`
            : `This document is like an earlier one: it was read by ${what}.`}
        </summary>
        <ul className={styles.fields}>
          {fields.map((one) => (
            <li key={one.path}>
              <code>{plain(one.path)}</code> <span className="soft">{plain(one.type)}</span> {plain(one.description)}
            </li>
          ))}
        </ul>
      </details>
      <Button kind="main" disabled={decide.isPending} onClick={() => decide.mutate(true)}>
        Accept
      </Button>
      <Button disabled={decide.isPending} onClick={() => decide.mutate(false)}>
        Reject
      </Button>
    </>
  );
}

function Failed({ documentId, error }: { documentId: string; error: string | null }) {
  const queries = useQueryClient();
  const again = useMutation({
    mutationFn: () => startProposal(documentId, crypto.randomUUID()),
    onSuccess: () => queries.invalidateQueries({ queryKey: ['document', documentId] }),
    onError: (problem) => tell(sentenceOf(problem), { urgent: true }),
  });
  return (
    <>
      <p>No schema could be proposed. {error !== null && plain(error)}</p>
      <Button disabled={again.isPending} onClick={() => again.mutate()}>
        Propose again
      </Button>
    </>
  );
}
