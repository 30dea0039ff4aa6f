/** A tool call that needs approval: what it would change. It can be approved as is, approved with edits, or rejected. */

import { useMemo, useState } from 'react';
import type { StackColumn } from '../api/types';
import { Button } from '../components/ui/Button';
import { TextArea } from '../components/ui/Input';
import { Notice } from '../components/ui/Notice';
import { Table, Td, Th, Tr } from '../components/ui/Table';
import { typeLabel } from '../fields/labels';
import { schemaFields } from '../fields/schemaFields';
import { toolText } from '../run/toolText';
import { visibleText } from '../shared/format';
import { t } from '../shared/i18n';
import { useShortcut } from '../shared/shortcuts/useShortcut';
import { columnConflict } from '../records/columnConflict';
import { ColumnsEditor } from '../records/ColumnsEditor';
import { changeLabel, changeValue } from './changeText';
import { ApproveRestMenu, DecisionProblem, RejectForm } from './DecisionParts';
import { schemaChanges, type PendingCall } from './pendingCall';
import { writesValues } from './proposedValues';
import { SchemaEffect } from './SchemaEffect';
import { useDecideCall } from './useDecideCall';
import { ValuesToApprove } from './ValuesToApprove';

const APPROVE = { id: 'approval.approve', keys: 'a' } as const;
const REJECT = { id: 'approval.reject', keys: 'r' } as const;

interface Props {
  runId: string;
  call: PendingCall;
  onDecided: () => void;
  /** Of values: the path of the one whose box is shown. */
  chosen?: string | undefined;
  onChoose?: ((path: string) => void) | undefined;
}

export function ApprovalCard(props: Props) {
  const { runId, call } = props;
  return (
    <div className="@container m-3 overflow-clip rounded-lg border border-primary">
      {writesValues(call) ? (
        <ValuesToApprove key={call.call_id} {...props} />
      ) : (
        <CallToApprove key={`${runId} ${call.call_id}`} runId={runId} call={call} onDecided={props.onDecided} />
      )}
    </div>
  );
}

type Mode = { kind: 'look' } | { kind: 'edit'; text: string } | { kind: 'reject' };

function CallToApprove({ runId, call, onDecided }: Omit<Props, 'chosen' | 'onChoose'>) {
  const [mode, setMode] = useState<Mode>({ kind: 'look' });
  const { refusal, isOff, error, decide } = useDecideCall(runId, call.call_id, onDecided);
  const schema = useMemo(() => schemaChanges(call.changes ?? []), [call.changes]);
  // Without earlier values, nothing changes: only the new ones are shown.
  const isAllNew = schema.others.every((change) => change.added === true);
  const edited = inputOf(mode, call);
  const columns =
    mode.kind === 'edit' && call.tool === 'define_columns'
      ? (JSON.parse(mode.text) as { columns: StackColumn[] }).columns
      : null;
  const approve = (rest?: 'tool' | 'all') => {
    if (edited === 'wrong') return;
    decide({
      approved: true,
      ...(edited !== null && { input: edited }),
      ...(rest !== undefined && { approve_rest: rest }),
    });
  };
  const shortcutsActive = mode.kind === 'look' && !isOff;
  useShortcut(APPROVE, () => approve(), shortcutsActive);
  useShortcut(REJECT, () => setMode({ kind: 'reject' }), shortcutsActive);

  return (
    <section className="grid min-w-0 gap-3 p-4" aria-label={t('approvals.card')}>
      <h3>{toolText(call)}</h3>
      {columns === null && schema.others.length > 0 && (
        <dl className="grid gap-1 wrap-anywhere">
          {schema.others.map((change) => (
            <div key={change.path} className="grid grid-cols-[minmax(0,2fr)_minmax(0,3fr)] gap-2">
              <dt className="text-muted-foreground" title={visibleText(change.path)}>
                {changeLabel(call.tool, change.path)}
              </dt>
              <dd>
                {!isAllNew && change.added !== true && (
                  <>
                    <del className="text-muted-foreground">{changeValue(call.tool, change.path, change.old)}</del>
                    <span aria-label={t('approvals.to')}> → </span>
                  </>
                )}
                {change.removed === true ? t('approvals.removed') : changeValue(call.tool, change.path, change.new)}
              </dd>
            </div>
          ))}
        </dl>
      )}
      {schema.fields.size > 0 && <SchemaTable schema={call.input.schema} marks={schema.fields} />}
      {call.tool === 'update_schema' && <SchemaEffect runId={runId} call={call} />}
      {columns !== null && (
        <ColumnsEditor
          columns={columns}
          onChange={(next) => setMode({ kind: 'edit', text: JSON.stringify({ ...call.input, columns: next }) })}
        />
      )}
      {mode.kind === 'edit' && columns === null && (
        <TextArea
          className="w-full font-mono"
          aria-label={t('approvals.editAsJson')}
          rows={8}
          spellCheck={false}
          value={mode.text}
          onChange={(event) => setMode({ kind: 'edit', text: event.target.value })}
        />
      )}
      {edited === 'wrong' && <Notice kind="unsure">{t('approvals.invalidJson')}</Notice>}
      <DecisionProblem error={error} refusal={refusal} />
      <div className="flex flex-wrap gap-2 max-sm:[&_button]:min-h-11">
        {mode.kind === 'reject' ? (
          <RejectForm disabled={isOff} onReject={decide} onClose={() => setMode({ kind: 'look' })} />
        ) : (
          <Button
            kind="main"
            keys="A"
            disabled={isOff || edited === 'wrong' || (columns !== null && columnConflict(columns) !== null)}
            onClick={() => approve()}>
            {edited === null ? t('approvals.approve') : t('approvals.approveWithEdits')}
          </Button>
        )}
        {mode.kind === 'look' && (
          <>
            {/* Which rows other agents read cannot be chosen here: the documents of the table decide. */}
            {call.tool !== 'extract_row' && (
              <Button
                disabled={isOff}
                onClick={() => setMode({ kind: 'edit', text: JSON.stringify(call.input, null, 2) })}>
                {t('common.edit')}
              </Button>
            )}
            <Button keys="R" disabled={isOff} onClick={() => setMode({ kind: 'reject' })}>
              {t('approvals.rejectWithReason')}
            </Button>
            <ApproveRestMenu tool={call.tool} disabled={isOff} onApprove={approve} />
          </>
        )}
        {mode.kind === 'edit' && (
          <Button kind="quiet" disabled={isOff} onClick={() => setMode({ kind: 'look' })}>
            {t('common.back')}
          </Button>
        )}
      </div>
    </section>
  );
}

interface SchemaTableProps {
  schema: unknown;
  marks: ReadonlyMap<string, 'new' | 'removed' | 'changed'>;
}

/** The fields of the schema after the call, each with its change. */
function SchemaTable({ schema, marks }: SchemaTableProps) {
  const fields = typeof schema === 'object' && schema !== null ? schemaFields(schema as Record<string, unknown>) : [];
  const gone = [...marks].filter(([path, mark]) => mark === 'removed' && !fields.some((one) => one.path === path));
  return (
    <Table label={t('approvals.schemaFields')}>
      <thead>
        <tr>
          <Th>{t('approvals.columns.field')}</Th>
          <Th>{t('approvals.columns.type')}</Th>
          <Th>{t('approvals.columns.description')}</Th>
          <Th>{t('approvals.columns.change')}</Th>
        </tr>
      </thead>
      <tbody>
        {[...fields, ...gone.map(([path]) => ({ path, type: '', description: '' }))].map((one) => (
          <Tr key={one.path}>
            <Td>
              <code>{visibleText(one.path)}</code>
            </Td>
            <Td>{typeLabel(one.type)}</Td>
            <Td>{visibleText(one.description)}</Td>
            <Td>{marks.has(one.path) ? t(`approvals.changes.${marks.get(one.path)!}`) : ''}</Td>
          </Tr>
        ))}
      </tbody>
    </Table>
  );
}

/** Return the edited arguments; null if nothing was edited. */
function inputOf(mode: Mode, call: PendingCall): Record<string, unknown> | null | 'wrong' {
  if (mode.kind !== 'edit') return null;
  try {
    const read: unknown = JSON.parse(mode.text);
    if (typeof read !== 'object' || read === null || Array.isArray(read)) return 'wrong';
    return JSON.stringify(read) === JSON.stringify(call.input) ? null : (read as Record<string, unknown>);
  } catch {
    return 'wrong';
  }
}
