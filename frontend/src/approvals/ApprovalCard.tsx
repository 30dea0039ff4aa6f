/** A call that waits for a person: what it would change, and their word on it. Approved as it is or with other values, or
 * rejected with a reason. */

import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { Fragment, useMemo, useState } from 'react';
import { ApiError } from '../api/client';
import { decideCall } from '../api/runs';
import type { Box } from '../api/types';
import { readWritten, written } from '../document/fields/fieldValue';
import { valueAt } from '../document/fields/paths';
import { schemaFields } from '../document/schemaFields';
import { Crop } from '../review/Crop';
import { Button } from '../shared/Button';
import { visibleText } from '../shared/format';
import { Menu, MenuItem } from '../shared/Menu';
import { ErrorNotice, Notice } from '../shared/Notice';
import { Icon } from '../shared/Icon';
import { useShortcut } from '../shared/shortcuts/useShortcut';
import { proposedFieldsQuery, waitingRunQuery } from './approvalQueries';
import styles from './Approvals.module.css';
import { editedInput, inputPathOf } from './editedInput';
import { SchemaEffect } from './SchemaEffect';
import { REFUSALS, schemaChanges, type ProposedEvidence, type PendingChange, type PendingCall } from './pendingCall';

const AREA = 'Approval';
const APPROVE = { id: 'approval.approve', area: AREA, words: 'Approve', keys: 'a' };
const REJECT = { id: 'approval.reject', area: AREA, words: 'Reject, with a reason', keys: 'r' };

interface Props {
  runId: string;
  call: PendingCall;
  onDecided: () => void;
  /** Whether its keys hold: of several cards only one. */
  hasKeys?: boolean;
}

type Mode = { kind: 'look' } | { kind: 'edit'; texts: Record<string, string> } | { kind: 'edit all'; text: string } | { kind: 'reject'; reason: string };

export function ApprovalCard({ runId, call, onDecided, hasKeys = true }: Props) {
  const [mode, setMode] = useState<Mode>({ kind: 'look' });
  const queries = useQueryClient();
  const { data: run } = useQuery(waitingRunQuery(runId));
  const { data: proposed } = useQuery(proposedFieldsQuery(runId, call.call_id));
  const refusal = run?.decision_refusal ?? null;
  const schema = useMemo(() => schemaChanges(call.changes ?? []), [call.changes]);
  const changes = schema.others;
  const decide = useMutation({
    mutationFn: (decision: Parameters<typeof decideCall>[2]) => decideCall(runId, call.call_id, decision),
    onSuccess: async () => {
      onDecided();
      await queries.invalidateQueries({ queryKey: ['runs'] });
    },
  });

  // Where nothing was there before, there is no room to keep for it.
  const isAllNew = changes.every((change) => change.added === true);
  const editable = changes.filter((change) => change.removed !== true && inputPathOf(call.input, change.path) !== null);
  const edit = () => {
    if (editable.length === 0 || schema.fields.size > 0) setMode({ kind: 'edit all', text: JSON.stringify(call.input, null, 2) });
    else setMode({ kind: 'edit', texts: Object.fromEntries(editable.map((change) => [change.path, written(given(call, change))])) });
  };
  const edited = inputOf(mode, call, editable);
  const approve = (further?: 'tool' | 'all') => {
    if (edited === 'wrong') return;
    decide.mutate({ approved: true, ...(edited !== null && { input: edited }), ...(further !== undefined && { further }) });
  };
  const reject = () => {
    const reason = mode.kind === 'reject' ? mode.reason.trim() : '';
    decide.mutate({ approved: false, ...(reason !== '' && { reason }) });
  };
  const isOff = decide.isPending || refusal !== null;
  const canBeAsked = hasKeys && mode.kind === 'look' && !isOff;
  useShortcut(APPROVE, () => approve(), canBeAsked);
  useShortcut(REJECT, () => setMode({ kind: 'reject', reason: '' }), canBeAsked);

  return (
    <section className={styles.card} aria-label="Needs your approval">
      <h3>{visibleText(call.message)}</h3>
      <dl className={styles.changes} data-new={isAllNew || undefined}>
        {changes.map((change) => (
          <Fragment key={change.path}>
            <dt>
              <code>{visibleText(change.path)}</code>
            </dt>
            {!isAllNew && <dd className={styles.old}>{change.added === true ? '' : asText(change.old)}</dd>}
            <dd aria-label="to">→</dd>
            <dd>
              {mode.kind === 'edit' && change.path in mode.texts ? (
                <input
                  aria-label={`New value of ${visibleText(change.path)}`}
                  value={mode.texts[change.path]}
                  onChange={(event) => setMode({ kind: 'edit', texts: { ...mode.texts, [change.path]: event.target.value } })}
                />
              ) : change.removed === true ? (
                'removed'
              ) : (
                <>
                  {asText(change.new)} <Found at={proposed?.evidence as ProposedEvidence | undefined} path={change.path} documentId={run?.document_id ?? null} />
                </>
              )}
            </dd>
          </Fragment>
        ))}
      </dl>
      {schema.fields.size > 0 && <SchemaTable schema={call.input.schema} marks={schema.fields} />}
      {call.tool === 'update_schema' && <SchemaEffect runId={runId} call={call} />}
      {mode.kind === 'edit all' && (
        <textarea
          className={styles.all}
          aria-label="Edit as JSON"
          rows={8}
          spellCheck={false}
          value={mode.text}
          onChange={(event) => setMode({ kind: 'edit all', text: event.target.value })}
        />
      )}
      {mode.kind === 'reject' && (
        <input
          className={styles.all}
          aria-label="Reason"
          placeholder="Reason (sent to the agent)"
          maxLength={2000}
          value={mode.reason}
          autoFocus
          onChange={(event) => setMode({ kind: 'reject', reason: event.target.value })}
          onKeyDown={(event) => {
            if (event.key === 'Enter') reject();
            if (event.key === 'Escape') setMode({ kind: 'look' });
          }}
        />
      )}
      {edited === 'wrong' && <Notice kind="unsure">Not valid JSON: a JSON object is needed.</Notice>}
      {decide.isError && <Undecided error={decide.error} />}
      {refusal !== null && <Notice kind="unsure">{REFUSALS[refusal]}</Notice>}
      <div className={styles.buttons}>
        {mode.kind === 'reject' ? (
          <Button kind="main" disabled={isOff} onClick={reject}>
            Reject
          </Button>
        ) : (
          <>
            <Button kind="main" disabled={isOff || edited === 'wrong'} onClick={() => approve()}>
              {edited === null ? 'Approve' : 'Approve with edits'}
            </Button>
            {mode.kind === 'look' && (
              <>
                <Button disabled={isOff} onClick={edit}>
                  Edit
                </Button>
                <Button disabled={isOff} onClick={() => setMode({ kind: 'reject', reason: '' })}>
                  Reject…
                </Button>
                <Menu
                  align="start"
                  trigger={
                    <Button kind="quiet" disabled={isOff} label="More options">
                      <Icon name="down" size={12} />
                    </Button>
                  }
                >
                  <MenuItem onChoose={() => approve('tool')}>Approve, and always allow “{visibleText(call.tool)}” in this run</MenuItem>
                  <MenuItem onChoose={() => approve('all')}>Approve everything in this run</MenuItem>
                </Menu>
              </>
            )}
          </>
        )}
        {mode.kind !== 'look' && (
          <Button kind="quiet" disabled={isOff} onClick={() => setMode({ kind: 'look' })}>
            Back
          </Button>
        )}
      </div>
    </section>
  );
}

/** Where a value is on the page, with a picture of it. */
function Found({ at, path, documentId }: { at: ProposedEvidence | undefined; path: string; documentId: string | null }) {
  const found = at?.[path];
  if (found === undefined || documentId === null) return null;
  const box = found.boxes[0] as Box | undefined;
  if (found.state !== 'found' || found.page === null || box === undefined) {
    return <span className={found.state === 'not_found' ? styles.moved : 'muted'}>{found.state === 'blank' ? 'Blank in the document' : 'Not on page'}</span>;
  }
  return (
    <>
      <span className="muted">Page {found.page}</span>
      <span className={styles.crop}>
        <Crop documentId={documentId} page={found.page} box={box} width={480} />
      </span>
    </>
  );
}

/** The fields that a schema would have, each with what happens to it. */
function SchemaTable({ schema, marks }: { schema: unknown; marks: ReadonlyMap<string, 'new' | 'removed' | 'changed'> }) {
  const fields = typeof schema === 'object' && schema !== null ? schemaFields(schema as Record<string, unknown>) : [];
  const gone = [...marks].filter(([path, mark]) => mark === 'removed' && !fields.some((one) => one.path === path));
  return (
    <table className={styles.schema} aria-label="Fields of the schema">
      <thead>
        <tr>
          <th>Field</th>
          <th>Type</th>
          <th>Description</th>
          <th>Change</th>
        </tr>
      </thead>
      <tbody>
        {[...fields, ...gone.map(([path]) => ({ path, type: '', description: '' }))].map((one) => (
          <tr key={one.path}>
            <td>
              <code>{visibleText(one.path)}</code>
            </td>
            <td>{visibleText(one.type)}</td>
            <td>{visibleText(one.description)}</td>
            <td>{marks.get(one.path) ?? ''}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

/** What the person's own arguments are; null: they are the agent's. */
function inputOf(mode: Mode, call: PendingCall, editable: readonly PendingChange[]): Record<string, unknown> | null | 'wrong' {
  if (mode.kind === 'edit') {
    const edits = editable
      .filter((change) => mode.texts[change.path] !== written(given(call, change)))
      .map((change) => ({ place: inputPathOf(call.input, change.path)!, value: readWritten(mode.texts[change.path]!, given(call, change)) }));
    return edits.length === 0 ? null : editedInput(call.input, edits);
  }
  if (mode.kind !== 'edit all') return null;
  try {
    const read: unknown = JSON.parse(mode.text);
    if (typeof read !== 'object' || read === null || Array.isArray(read)) return 'wrong';
    return JSON.stringify(read) === JSON.stringify(call.input) ? null : (read as Record<string, unknown>);
  } catch {
    return 'wrong';
  }
}

/** The value that the agent would write. */
function given(call: PendingCall, change: PendingChange): unknown {
  return valueAt(call.input, inputPathOf(call.input, change.path) ?? []);
}

/** Why it was not decided; where what it would change has moved, how that stands now. */
function Undecided({ error }: { error: unknown }) {
  const isMoved = error instanceof ApiError && error.code === 'target_changed';
  const moved = (isMoved ? (error.problem?.changes ?? []) : []) as { path: string; old: unknown; shown: unknown }[];
  return (
    <>
      <ErrorNotice error={error} />
      {moved.length > 0 && (
        <ul className={styles.moved}>
          {moved.map((one) => (
            <li key={one.path}>
              <code>{visibleText(one.path)}</code> is {one.old == null ? 'nothing' : asText(one.old)} now; {one.shown == null ? 'nothing' : asText(one.shown)} was shown
            </li>
          ))}
        </ul>
      )}
    </>
  );
}

/** (The service has spelt out what nobody sees.) */
function asText(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value ?? null);
}
