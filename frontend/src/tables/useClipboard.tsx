/** Copying cells to a spreadsheet and pasting from one. Each pasted cell is one change with a check of the version; what
 * cannot be written is listed. */

import { useState, type ReactNode } from 'react';
import type { RecordRow } from '../api/types';
import { Dialog, DialogActions } from '../components/ui/Dialog';
import { visibleText } from '../shared/format';
import { t } from '../shared/i18n';
import { errorMessage } from '../components/ui/Notice';
import { toast } from '../components/ui/Toast';
import { copiedText, parseCell } from './cellValue';
import type { CellRange } from './grid';
import { DOCUMENT, FIRST, type GridColumn } from './gridColumns';
import { isRead, rowStatusText } from './cellStatus';
import { NotSavedDialog } from './NotSavedDialog';
import { formatTsv, parseTsv } from './tsv';
import type { CellEdit, useCellEdits } from './useCellEdits';
import type { Selection } from './useSelection';
import type { TableRows } from './useTableRows';

/** Pasting more cells asks first. */
const ASK_FROM = 20;
const MAX_CELLS = 2000;

interface Options {
  columns: readonly GridColumn[];
  rows: TableRows;
  selection: Selection;
  edits: ReturnType<typeof useCellEdits>;
  canWrite: boolean;
  /** Give the focus back to the grid. */
  focus: () => void;
}

export function useClipboard({ columns, rows, selection, edits, canWrite, focus }: Options) {
  const [asking, setAsking] = useState<{ edits: CellEdit[]; refused: string[] } | null>(null);
  const [refused, setRefused] = useState<readonly string[]>([]);
  const [saving, setSaving] = useState<{ done: number; of: number } | null>(null);

  const textOf = (row: RecordRow, column: number): string => {
    if (column < DOCUMENT) return '';
    if (column === DOCUMENT) return row.filename;
    const one = columns[column - FIRST];
    return one === undefined ? rowStatusText(row) : copiedText(row.cells[one.path]?.value);
  };

  /** The lines of a range that are rows. */
  const rowLines = ({ top, bottom }: Pick<CellRange, 'top' | 'bottom'>): number[] =>
    Array.from({ length: bottom - top + 1 }, (_, index) => top + index).filter(
      (line) => rows.groupAt(line) === undefined,
    );

  /** Copy the range of cells; of one cell, the selected rows if there are any. */
  function copy(range: CellRange, event: ClipboardEvent) {
    event.preventDefault();
    const isOne = range.top === range.bottom && range.left === range.right;
    if (isOne && selection.size > 0) {
      const header = [t('tables.document'), ...columns.map(({ label }) => label)];
      const all = Array.from({ length: columns.length + 1 }, (_, index) => index + DOCUMENT);
      event.clipboardData?.setData(
        'text/plain',
        formatTsv([header, ...selection.rows.map((row) => all.map((column) => textOf(row, column)))]),
      );
      toast(t('tables.copiedRows', { count: selection.size }));
      return;
    }
    const indexes = rowLines(range);
    const across = Array.from({ length: range.right - range.left + 1 }, (_, index) => range.left + index).filter(
      (column) => column >= DOCUMENT,
    );
    const loaded = indexes.map((index) => rows.rowAt(index));
    if (loaded.every((row) => row !== undefined)) {
      event.clipboardData?.setData(
        'text/plain',
        formatTsv(loaded.map((row) => across.map((column) => textOf(row, column)))),
      );
      if (!isOne) toast(t('tables.copiedCells', { count: indexes.length * across.length }));
      return;
    }
    // Rows that were scrolled past are loaded first.
    rows
      .load(range.top, range.bottom)
      .then((all) =>
        navigator.clipboard.writeText(formatTsv(all.map(({ row }) => across.map((column) => textOf(row, column))))),
      )
      .then(() => toast(t('tables.copiedCells', { count: indexes.length * across.length })))
      .catch(() => toast(t('common.notCopied'), { urgent: true }));
  }

  /** Write texts into the cells from this one on. */
  async function write(top: number, left: number, texts: readonly (readonly string[])[]) {
    const cells = texts.reduce((sum, row) => sum + row.length, 0);
    if (cells > MAX_CELLS) return toast(t('tables.tooManyCells', { count: cells, limit: MAX_CELLS }), { urgent: true });
    // Headers of groups are passed over.
    let bottom = Math.min(rows.lines, top + texts.length) - 1;
    while (bottom < rows.lines - 1 && rowLines({ top, bottom }).length < texts.length) bottom += 1;
    const targets = (await rows.load(top, bottom)).map(({ row }) => row);
    const changes: CellEdit[] = [];
    const problems: string[] = [];
    texts.forEach((ofRow, down) => {
      ofRow.forEach((text, right) => {
        const row = targets[down];
        const column = columns[left - FIRST + right];
        if (row === undefined || column === undefined || !isRead(row)) {
          if (text.trim() !== '') problems.push(t('tables.outside', { text: visibleText(text.slice(0, 100)) }));
          return;
        }
        if (text === copiedText(row.cells[column.path]?.value)) return;
        const parsed = parseCell(text, column.type);
        if ('problem' in parsed)
          problems.push(
            place(row, column, `“${visibleText(text.slice(0, 100))}”: ${t(`tables.problems.${parsed.problem}`)}`),
          );
        else if (parsed.value !== (row.cells[column.path]?.value ?? null))
          changes.push({ row, column, value: parsed.value });
      });
    });
    if (changes.length > ASK_FROM) setAsking({ edits: changes, refused: problems });
    else await save(changes, problems);
  }

  function save(changes: readonly CellEdit[], problems: readonly string[]) {
    setAsking(null);
    setRefused(problems);
    return change(changes, 'tables.changedCells', (edit, batch) =>
      edits.write(
        edit,
        (error) => setRefused((before) => [...before, place(edit.row, edit.column, errorMessage(error))]),
        batch,
      ),
    );
  }

  function undo(batch: symbol) {
    edits.undoBatch(batch);
    focus();
  }

  /** Change many cells, with one message and one undo. */
  async function change(
    changes: readonly CellEdit[],
    message: 'tables.changedCells' | 'tables.confirmedCells',
    act: (edit: CellEdit, batch: symbol) => Promise<boolean>,
  ) {
    let done = 0;
    const batch = Symbol(message);
    const results = changes.map((edit) =>
      act(edit, batch).finally(() => {
        done += 1;
        if (changes.length > 1) setSaving({ done, of: changes.length });
      }),
    );
    const count = (await Promise.all(results)).filter(Boolean).length;
    setSaving(null);
    if (changes.length > 1)
      toast(t(message, { count }), {
        seconds: 12,
        ...(count > 0 && { action: { label: t('common.undo'), act: () => undo(batch) } }),
      });
  }

  /** Confirm the values of a range that are not confirmed yet. */
  async function confirm(range: CellRange) {
    const across = columns.slice(Math.max(0, range.left - FIRST), Math.max(0, range.right - FIRST + 1));
    const height = rowLines(range).length;
    if (height * across.length > MAX_CELLS)
      return toast(t('tables.tooManyCells', { count: height * across.length, limit: MAX_CELLS }), { urgent: true });
    const targets = (await rows.load(range.top, range.bottom)).map(({ row }) => row).filter(isRead);
    const open = targets
      .flatMap((row) => across.map((column) => ({ row, column, cell: row.cells[column.path] })))
      .filter(({ cell }) => cell?.value != null && cell.status !== 'confirmed');
    await change(
      open.map(({ row, column, cell }) => ({ row, column, value: cell!.value })),
      'tables.confirmedCells',
      edits.confirm,
    );
    const reasons = open.map((one) => edits.stillToReview(one)).filter((reason) => reason !== undefined);
    if (reasons.length > 0)
      toast(
        t('tables.stillToReviewCells', {
          count: reasons.length,
          reasons: [...new Set(reasons)].slice(0, 3).join('; '),
        }),
        { seconds: 12, urgent: true },
      );
  }

  function paste(range: CellRange, text: string) {
    if (!canWrite || text === '') return;
    const texts = parseTsv(text);
    const isOne = texts.length === 1 && texts[0]!.length === 1;
    if (range.left < FIRST) return toast(t('tables.pasteFields'), { urgent: true });
    // One value fills the whole range.
    const filled = isOne
      ? rowLines(range).map(() => Array.from({ length: range.right - range.left + 1 }, () => texts[0]![0]!))
      : texts;
    void write(range.top, range.left, filled).catch((error: unknown) => toast(errorMessage(error), { urgent: true }));
  }

  async function clear(range: CellRange) {
    const cleared = columns.slice(Math.max(0, range.left - FIRST), Math.max(0, range.right - FIRST + 1));
    await write(
      range.top,
      range.left,
      rowLines(range).map(() => cleared.map(() => '')),
    );
  }

  const dialogs: ReactNode = (
    <>
      <Dialog
        title={t('tables.changeCells', { count: asking?.edits.length ?? 0 })}
        open={asking !== null}
        onClose={() => setAsking(null)}>
        <p>{t('tables.changeCellsHint')}</p>
        {asking !== null && asking.refused.length > 0 && (
          <p>{t('tables.cannotWrite', { count: asking.refused.length })}</p>
        )}
        <DialogActions
          label={t('tables.change')}
          onClose={() => setAsking(null)}
          onConfirm={() => asking !== null && void save(asking.edits, asking.refused)}
        />
      </Dialog>
      <NotSavedDialog
        conflicts={saving === null ? edits.conflicts : []}
        refused={saving === null ? refused : []}
        onKeepMine={edits.keepMine}
        onKeepTheirs={edits.keepTheirs}
        onClose={() => setRefused([])}
      />
    </>
  );
  return {
    copy,
    paste,
    clear,
    confirm,
    dialogs,
    progress: saving === null ? null : t('tables.saving', { done: saving.done, count: saving.of }),
  };
}

function place(row: RecordRow, column: GridColumn, reason: string): string {
  return `${visibleText(row.filename)}, ${column.label}: ${reason}`;
}
