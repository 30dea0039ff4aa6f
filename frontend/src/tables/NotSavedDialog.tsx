/** Edits that were not saved: values that someone else has changed meanwhile, each to choose from, and texts that no cell takes. */

import type { RecordCell } from '../api/types';
import { usePersonName } from '../session/people';
import { Button } from '../components/ui/Button';
import { Dialog } from '../components/ui/Dialog';
import { formatAge, visibleText } from '../shared/format';
import { t } from '../shared/i18n';
import { displayCell } from './cellValue';
import type { GridColumn } from './gridColumns';
import type { CellConflict } from './useCellEdits';

interface Props {
  conflicts: readonly CellConflict[];
  refused: readonly string[];
  onKeepMine: (conflict: CellConflict) => void;
  onKeepTheirs: (conflict: CellConflict) => void;
  onClose: () => void;
}

export function NotSavedDialog({ conflicts, refused, onKeepMine, onKeepTheirs, onClose }: Props) {
  const count = conflicts.length;
  const keep = (act: (conflict: CellConflict) => void) => {
    for (const one of conflicts) act(one);
    if (refused.length === 0) onClose();
  };
  return (
    <Dialog
      title={count > 0 ? t('tables.conflicts', { count }) : t('tables.cannotWrite', { count: refused.length })}
      open={count + refused.length > 0}
      onClose={() => {
        keep(onKeepTheirs);
        onClose();
      }}>
      {count > 0 && <p>{t('tables.conflictsHint')}</p>}
      {count > 0 && (
        <ul className="grid max-h-[50vh] gap-1 overflow-auto wrap-anywhere">
          {conflicts.map((one) => (
            <Conflict
              key={`${one.row.extraction_id} ${one.path}`}
              conflict={one}
              onKeepMine={() => onKeepMine(one)}
              onKeepTheirs={() => onKeepTheirs(one)}
            />
          ))}
        </ul>
      )}
      {count > 0 && refused.length > 0 && <p>{t('tables.cannotWrite', { count: refused.length })}</p>}
      {refused.length > 0 && (
        <ul className="grid max-h-[50vh] gap-1 overflow-auto wrap-anywhere">
          {refused.map((one, index) => (
            <li key={index}>{one}</li>
          ))}
        </ul>
      )}
      {count > 1 && (
        <div className="flex flex-wrap justify-end gap-2">
          <Button onClick={() => keep(onKeepTheirs)}>{t('tables.keepAllTheirs')}</Button>
          <Button onClick={() => keep(onKeepMine)}>{t('tables.keepAllMine')}</Button>
        </div>
      )}
    </Dialog>
  );
}

function Conflict({
  conflict,
  onKeepMine,
  onKeepTheirs,
}: {
  conflict: CellConflict;
  onKeepMine: () => void;
  onKeepTheirs: () => void;
}) {
  const personName = usePersonName();
  const { row, column, value, now, change } = conflict;
  const person = change?.dictated_by ?? (change?.actor === 'agent' ? null : change?.user_id);
  const author =
    change === undefined ? null : person == null ? t('history.agent') : t('people.by', { person: personName(person) });
  return (
    <li className="grid gap-1">
      <p>
        <b>{column.label}</b> <span className="muted">{visibleText(row.filename)}</span>
      </p>
      <dl className="grid grid-cols-[minmax(0,1fr)_minmax(0,1fr)_auto] items-center gap-2 [&>dd]:font-medium">
        <dt>{t('tables.mine')}</dt>
        <dd>{valueText(value, column)}</dd>
        <dd>
          <Button
            aria-label={t('tables.keepMineOf', { field: column.label, value: valueText(value, column) })}
            onClick={onKeepMine}>
            {t('tables.keepMine')}
          </Button>
        </dd>
        <dt>
          {t('tables.theirs')}
          {author !== null && <small className="muted">{` ${author}, ${formatAge(change!.created_at)}`}</small>}
        </dt>
        <dd>{valueText(now, column)}</dd>
        <dd>
          <Button
            aria-label={t('tables.keepTheirsOf', { field: column.label, value: valueText(now, column) })}
            onClick={onKeepTheirs}>
            {t('tables.keepTheirs')}
          </Button>
        </dd>
      </dl>
    </li>
  );
}

function valueText(value: RecordCell['value'], column: GridColumn): string {
  return displayCell({ value, quote: null } as RecordCell, column) || t('fields.nothing');
}
