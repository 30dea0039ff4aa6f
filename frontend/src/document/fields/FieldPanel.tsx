/** The fields of one extraction: first what needs a person, then all of them. */

import { type ReactNode, useEffect, useMemo, useRef, useState } from 'react';
import type { Box, Extraction } from '../../api/types';
import { t } from '../../shared/i18n';
import { useShortcut } from '../../shared/shortcuts/useShortcut';
import type { Mode } from '../../question/Question';
import { Discussion } from '../Discussion';
import type { CandidateAnswer } from '../../question/answers';
import type { SchemaField } from '../../fields/schemaFields';
import { AddField } from './AddField';
import { FieldDetails } from './FieldDetails';
import { FieldTree } from './FieldTree';
import { type FieldRow, isStored } from '../../fields/fieldTree';
import { NeedsYou } from './NeedsYou';
import { isWithin } from '../../fields/proposals';
import type { Decisions } from '../../fields/useDecisions';

const NEXT = { id: 'field.next', keys: 'j' } as const;
const PREVIOUS = { id: 'field.previous', keys: 'k' } as const;
const EDIT = { id: 'field.edit', keys: 'e' } as const;
const UNDO = { id: 'document.undo', keys: 'Mod+z' } as const;

interface Props {
  extraction: Extraction | undefined;
  schema: readonly SchemaField[];
  canWrite: boolean;
  rows: readonly FieldRow[];
  questions: readonly FieldRow[];
  answers: readonly CandidateAnswer[];
  /** The answers are not known yet. */
  isAnswering: boolean;
  /** The question that is open. */
  open: string | null;
  chosen: string | null;
  changed: ReadonlyMap<string, number>;
  decisions: Decisions;
  /** Show a value while it is saved. */
  onDecide: (path: string, saved: Promise<boolean>, value?: unknown) => void;
  onChoose: (path: string) => void;
  onPlace: (page: number, box: Box) => void;
  /** Below what needs a person. */
  below: ReactNode;
  /** Below the fields, beside the button that adds one. */
  foot: ReactNode;
  /** Above the fields. */
  children: ReactNode;
}

export function FieldPanel(props: Props) {
  const { extraction, schema, canWrite, rows, questions, answers, open, chosen, changed, below, foot, children } =
    props;
  const { isAnswering, decisions, onDecide, onChoose, onPlace } = props;
  const scroller = useRef<HTMLDivElement>(null);
  const [editing, setEditing] = useState(false);
  const [startMode, setStartMode] = useState<Mode>('answers');
  const [takesFocus, setTakesFocus] = useState(false);
  const [answered, setAnswered] = useState<readonly string[]>([]);
  const row = rows.find((one) => one.path === chosen);
  const id = extraction?.id ?? '';

  const choose = (path: string) => {
    if (path !== chosen) setEditing(false);
    setTakesFocus(false);
    onChoose(path);
  };
  const openQuestion = (path: string, pick = false) => {
    setStartMode(pick ? 'pick' : 'answers');
    setTakesFocus(true);
    onChoose(path);
  };
  /** The next question opens, and takes the focus. */
  const decided = (path: string, saved: Promise<boolean>, value?: unknown) => {
    const at = questions.findIndex((one) => one.path === open);
    const left = questions.filter((one) => !isWithin(one.path, path));
    onDecide(path, saved, value);
    setAnswered((before) => [...before.filter((one) => one !== path), path]);
    const next = left[Math.min(Math.max(at, 0), left.length - 1)];
    if (next !== undefined) openQuestion(next.path);
    void saved.then((is) => is || setAnswered((before) => before.filter((one) => one !== path)));
  };
  const step = (by: 1 | -1) => {
    const stops = questions.length > 0 ? questions : rows.filter((one) => one.kind === 'leaf');
    const at = stops.findIndex((one) => one.path === (questions.length > 0 ? open : chosen));
    const isFirst = at < 0 || (questions.length > 0 && chosen !== open);
    const next = stops[Math.max(0, Math.min(stops.length - 1, isFirst ? Math.max(at, 0) : at + by))];
    if (next === undefined) return;
    if (questions.length > 0) openQuestion(next.path);
    else choose(next.path);
  };
  const write = (path: string, value: unknown, was: unknown) =>
    onDecide(path, decisions.write(id, path, value, { was: was ?? null }), value);
  const canEdit = canWrite && row?.kind === 'leaf' && isStored(row);
  useShortcut(NEXT, () => step(1));
  useShortcut(PREVIOUS, () => step(-1));
  useShortcut(EDIT, () => setEditing(true), canEdit);
  useShortcut(UNDO, () => void decisions.undo(), decisions.canUndo);

  const done = useMemo(
    () => rows.filter((one) => answered.includes(one.path) && !questions.some(({ path }) => path === one.path)),
    [rows, answered, questions],
  );
  // Nothing is left: the focus goes to the fields.
  const isDone = answered.length > 0 && questions.length === 0;
  useEffect(() => {
    if (isDone && document.activeElement === document.body)
      scroller.current?.querySelector<HTMLElement>('[role=tree]')?.focus({ preventScroll: true });
  }, [isDone]);
  const filled = rows.filter((one) => one.kind === 'leaf' && one.value != null && one.value !== '').length;
  return (
    <div ref={scroller} className="min-h-0 flex-1 overflow-y-auto after:block after:h-4">
      <div>{children}</div>
      {extraction !== undefined && (
        <NeedsYou
          extraction={extraction}
          schema={schema}
          questions={questions}
          answered={done}
          answers={answers}
          isLoading={isAnswering}
          open={open}
          startMode={startMode}
          takesFocus={takesFocus}
          decisions={decisions}
          onDecided={decided}
          onOpen={openQuestion}
        />
      )}
      {below}
      {rows.length > 0 && (
        <h2 className="flex px-4 pt-2 pb-1 text-xs font-normal text-muted-foreground">
          <span className="flex-1">{t('inbox.allFields')}</span>
          {t('inbox.filled', { count: filled, all: rows.filter((one) => one.kind === 'leaf').length })}
        </h2>
      )}
      <FieldTree
        rows={rows}
        chosen={chosen}
        editing={editing && canWrite}
        changed={changed}
        scroller={scroller}
        details={
          row !== undefined &&
          !editing && (
            <FieldDetails
              row={row}
              extraction={extraction}
              schema={schema}
              canWrite={canWrite}
              onEdit={() => setEditing(true)}
              onConfirm={() => onDecide(row.path, decisions.confirm(id, row.path))}
              onBlank={() => write(row.path, null, row.kind === 'leaf' ? row.value : undefined)}
              onUnlock={() => onDecide(row.path, decisions.unlock(id, row.path))}
              onPlace={onPlace}
            />
          )
        }
        onChoose={choose}
        onEdit={(is) => setEditing(is && canWrite)}
        onWrite={(path, { edited, was }) => write(path, edited, was)}
      />
      {canWrite && extraction !== undefined && (
        <div className="flex flex-wrap gap-x-2 px-2 pt-1">
          <AddField extraction={extraction} schema={schema} onAdd={(path, value) => write(path, value, undefined)} />
          {foot}
        </div>
      )}
      {extraction !== undefined && (
        <Discussion documentId={extraction.document_id} path={chosen} className="mx-4 mt-3 border-t border-line pt-2" />
      )}
    </div>
  );
}
