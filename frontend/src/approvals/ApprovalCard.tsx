/** A tool call that needs approval: what it would change. It can be approved as is, approved with edits, or rejected. */

import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { Fragment, useMemo, useState } from 'react';
import { ApiError } from '../api/client';
import { decideCall } from '../api/runs';
import type { Box, Evidence, StackColumn } from '../api/types';
import { displayValue, editedText, parseEdited } from '../document/fields/fieldValue';
import { pathLabel, typeLabel } from '../document/fields/labels';
import { valueAt } from '../document/fields/paths';
import { schemaFields } from '../document/schemaFields';
import { Crop } from '../review/Crop';
import { toolName, toolText } from '../runs/toolText';
import { Button } from '../components/ui/Button';
import { visibleText } from '../shared/format';
import { t } from '../shared/i18n';
import { Menu, MenuItem } from '../components/ui/Menu';
import { ErrorNotice, Notice } from '../components/ui/Notice';
import { Icon } from '../shared/Icon';
import { useShortcut } from '../shared/shortcuts/useShortcut';
import { columnConflict } from '../stacks/columnConflict';
import { ColumnsEditor } from '../stacks/ColumnsEditor';
import { proposedFieldsQuery, waitingRunQuery } from './approvalQueries';
import styles from './Approvals.module.css';
import { changeLabel, changeValue } from './changeText';
import { editedInput, inputPathOf } from './editedInput';
import { refusalTexts } from './refusalText';
import { SchemaEffect } from './SchemaEffect';
import { schemaChanges, type ProposedEvidence, type PendingChange, type PendingCall } from './pendingCall';

const APPROVE = { id: 'approval.approve', keys: 'a' } as const;
const REJECT = { id: 'approval.reject', keys: 'r' } as const;

interface Props {
  runId: string;
  call: PendingCall;
  onDecided: () => void;
  /** Whether its keyboard shortcuts are active: on one of several cards. */
  hasShortcuts?: boolean;
}

type Mode =
  | { kind: 'look' }
  | { kind: 'edit'; texts: Record<string, string> }
  | { kind: 'edit all'; text: string }
  | { kind: 'reject'; reason: string };

export function ApprovalCard({ runId, call, onDecided, hasShortcuts = true }: Props) {
  const [mode, setMode] = useState<Mode>({ kind: 'look' });
  const queries = useQueryClient();
  const { data: run } = useQuery(waitingRunQuery(runId));
  const { data: proposed } = useQuery(proposedFieldsQuery(runId, call.call_id));
  const refusal = run?.decision_refusal ?? null;
  const evidence = proposed?.evidence as ProposedEvidence | undefined;
  const schema = useMemo(() => schemaChanges(call.changes ?? []), [call.changes]);
  const changes = schema.others;
  const decide = useMutation({
    mutationFn: (decision: Parameters<typeof decideCall>[2]) => decideCall(runId, call.call_id, decision),
    onSuccess: async () => {
      onDecided();
      await queries.invalidateQueries({ queryKey: ['runs'] });
    },
  });

  // Without earlier values, nothing changes: only the new ones are shown.
  const isAllNew = changes.every((change) => change.added === true);
  const editable = changes.filter((change) => change.removed !== true && inputPathOf(call.input, change.path) !== null);
  // Which rows other agents read cannot be chosen here: the documents of the stack decide.
  const canEdit = call.tool !== 'extract_row' || editable.length > 0;
  const edit = () => {
    if (call.tool === 'define_columns' || editable.length === 0 || schema.fields.size > 0)
      setMode({ kind: 'edit all', text: JSON.stringify(call.input, null, 2) });
    else
      setMode({
        kind: 'edit',
        texts: Object.fromEntries(editable.map((change) => [change.path, editedText(proposedValue(call, change))])),
      });
  };
  const edited = inputOf(mode, call, editable);
  const columns =
    mode.kind === 'edit all' && call.tool === 'define_columns'
      ? (JSON.parse(mode.text) as { columns: StackColumn[] }).columns
      : null;
  const approve = (rest?: 'tool' | 'all') => {
    if (edited === 'wrong') return;
    decide.mutate({
      approved: true,
      ...(edited !== null && { input: edited }),
      ...(rest !== undefined && { approve_rest: rest }),
    });
  };
  const reject = () => {
    const reason = mode.kind === 'reject' ? mode.reason.trim() : '';
    decide.mutate({ approved: false, ...(reason !== '' && { reason }) });
  };
  const isOff = decide.isPending || refusal !== null;
  const shortcutsActive = hasShortcuts && mode.kind === 'look' && !isOff;
  useShortcut(APPROVE, () => approve(), shortcutsActive);
  useShortcut(REJECT, () => setMode({ kind: 'reject', reason: '' }), shortcutsActive);

  return (
    <section className={styles.card} aria-label={t('approvals.card')}>
      <h3>{call.tool === 'extract_fields' ? t('approvals.saveFields', { count: changes.length }) : toolText(call)}</h3>
      <dl className={styles.changes} data-new={isAllNew || undefined} hidden={columns !== null}>
        {changes.map((change) => (
          <Fragment key={change.path}>
            <dt>
              <span title={visibleText(change.path)}>{changeLabel(call.tool, change.path)}</span>
            </dt>
            {!isAllNew && (
              <>
                <dd className={styles.old}>
                  {change.added === true ? '' : changeValue(call.tool, change.path, change.old)}
                </dd>
                <dd aria-label={t('approvals.to')}>→</dd>
              </>
            )}
            <dd>
              {mode.kind === 'edit' && change.path in mode.texts ? (
                <input
                  autoFocus={change.path === editable[0]?.path}
                  aria-label={t('approvals.newValue', { field: changeLabel(call.tool, change.path) })}
                  value={mode.texts[change.path]}
                  onChange={(event) =>
                    setMode({ kind: 'edit', texts: { ...mode.texts, [change.path]: event.target.value } })
                  }
                />
              ) : change.removed === true ? (
                t('approvals.removed')
              ) : (
                <>
                  {changeValue(call.tool, change.path, change.new, evidence?.[change.path]?.quote)}{' '}
                  <EvidenceExcerpt evidence={evidence?.[change.path]} documentId={run?.document_id ?? null} />
                </>
              )}
            </dd>
          </Fragment>
        ))}
      </dl>
      {schema.fields.size > 0 && <SchemaTable schema={call.input.schema} marks={schema.fields} />}
      {call.tool === 'update_schema' && <SchemaEffect runId={runId} call={call} />}
      {columns !== null && (
        <ColumnsEditor
          columns={columns}
          onChange={(next) => setMode({ kind: 'edit all', text: JSON.stringify({ ...call.input, columns: next }) })}
        />
      )}
      {mode.kind === 'edit all' && call.tool !== 'define_columns' && (
        <textarea
          className={styles.all}
          aria-label={t('approvals.editAsJson')}
          rows={8}
          spellCheck={false}
          value={mode.text}
          onChange={(event) => setMode({ kind: 'edit all', text: event.target.value })}
        />
      )}
      {mode.kind === 'reject' && (
        <input
          className={styles.all}
          aria-label={t('approvals.reason')}
          placeholder={t('approvals.reasonHint')}
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
      {edited === 'wrong' && <Notice kind="unsure">{t('approvals.invalidJson')}</Notice>}
      {decide.isError && <DecisionError error={decide.error} />}
      {refusal !== null && <Notice kind="unsure">{t(`approvals.refusals.${refusal}`)}</Notice>}
      <div className={styles.buttons}>
        {mode.kind === 'reject' ? (
          <Button kind="main" disabled={isOff} onClick={reject}>
            {t('common.reject')}
          </Button>
        ) : (
          <>
            <Button
              kind="main"
              disabled={isOff || edited === 'wrong' || (columns !== null && columnConflict(columns) !== null)}
              onClick={() => approve()}>
              {edited === null ? t('approvals.approve') : t('approvals.approveWithEdits')}
            </Button>
            {mode.kind === 'look' && (
              <>
                {canEdit && (
                  <Button disabled={isOff} onClick={edit}>
                    {t('common.edit')}
                  </Button>
                )}
                <Button disabled={isOff} onClick={() => setMode({ kind: 'reject', reason: '' })}>
                  {t('approvals.rejectWithReason')}
                </Button>
                <Menu
                  align="start"
                  trigger={
                    <Button kind="quiet" disabled={isOff} label={t('approvals.more')}>
                      <Icon name="down" size={12} />
                    </Button>
                  }>
                  <MenuItem onChoose={() => approve('tool')}>
                    {t('approvals.allowTool', { tool: toolName(call.tool) })}
                  </MenuItem>
                  <MenuItem onChoose={() => approve('all')}>{t('approvals.allowAll')}</MenuItem>
                </Menu>
              </>
            )}
          </>
        )}
        {mode.kind !== 'look' && (
          <Button kind="quiet" disabled={isOff} onClick={() => setMode({ kind: 'look' })}>
            {t('common.back')}
          </Button>
        )}
      </div>
    </section>
  );
}

/** Where a value is on the page, with an excerpt. */
function EvidenceExcerpt({ evidence, documentId }: { evidence: Evidence | undefined; documentId: string | null }) {
  if (evidence === undefined || documentId === null) return null;
  const { page, state } = evidence;
  const box = evidence.boxes[0] as Box | undefined;
  if (state !== 'found' || page === null || box === undefined) {
    return (
      <span className={state === 'not_found' ? styles.moved : 'muted'}>
        {t(state === 'blank' ? 'fields.statuses.blank' : 'fields.reasons.not_found')}
      </span>
    );
  }
  return (
    <>
      <span className="muted">{t('common.page', { page })}</span>
      <span className={styles.crop}>
        <Crop documentId={documentId} page={page} box={box} width={480} />
      </span>
    </>
  );
}

/** The fields of the schema after the call, each with its change. */
function SchemaTable({
  schema,
  marks,
}: {
  schema: unknown;
  marks: ReadonlyMap<string, 'new' | 'removed' | 'changed'>;
}) {
  const fields = typeof schema === 'object' && schema !== null ? schemaFields(schema as Record<string, unknown>) : [];
  const gone = [...marks].filter(([path, mark]) => mark === 'removed' && !fields.some((one) => one.path === path));
  return (
    <table className={styles.schema} aria-label={t('approvals.schemaFields')}>
      <thead>
        <tr>
          <th>{t('approvals.columns.field')}</th>
          <th>{t('approvals.columns.type')}</th>
          <th>{t('approvals.columns.description')}</th>
          <th>{t('approvals.columns.change')}</th>
        </tr>
      </thead>
      <tbody>
        {[...fields, ...gone.map(([path]) => ({ path, type: '', description: '' }))].map((one) => (
          <tr key={one.path}>
            <td>
              <code>{visibleText(one.path)}</code>
            </td>
            <td>{typeLabel(one.type)}</td>
            <td>{visibleText(one.description)}</td>
            <td>{marks.has(one.path) ? t(`approvals.changes.${marks.get(one.path)!}`) : ''}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

/** Return the edited arguments; null if nothing was edited. */
function inputOf(
  mode: Mode,
  call: PendingCall,
  editable: readonly PendingChange[],
): Record<string, unknown> | null | 'wrong' {
  if (mode.kind === 'edit') {
    const edits = editable
      .filter((change) => mode.texts[change.path] !== editedText(proposedValue(call, change)))
      .map((change) => ({
        place: inputPathOf(call.input, change.path)!,
        value: parseEdited(mode.texts[change.path]!, proposedValue(call, change)),
      }));
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

/** Return the value that the agent would write. */
function proposedValue(call: PendingCall, change: PendingChange): unknown {
  return valueAt(call.input, inputPathOf(call.input, change.path) ?? []);
}

/** Why the decision failed; if values changed since they were shown, what they are now. */
function DecisionError({ error }: { error: unknown }) {
  const isMoved = error instanceof ApiError && error.code === 'target_changed';
  const moved = (isMoved ? (error.problem?.changes ?? []) : []) as { path: string; old: unknown; shown: unknown }[];
  return (
    <>
      <ErrorNotice error={error} />
      {error instanceof ApiError &&
        error.status === 422 &&
        error.problem !== undefined &&
        refusalTexts(error.problem, error.message).map((text) => <p key={text}>{text}</p>)}
      {moved.length > 0 && (
        <ul className={styles.moved}>
          {moved.map((one) => (
            <li key={one.path}>
              {t('approvals.moved', {
                field: pathLabel(one.path),
                value: displayValue(one.old) || t('fields.nothing'),
                before: displayValue(one.shown) || t('fields.nothing'),
              })}
            </li>
          ))}
        </ul>
      )}
    </>
  );
}
