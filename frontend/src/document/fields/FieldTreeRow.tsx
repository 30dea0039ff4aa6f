/** One row of the fields: label, value, and where it is printed or who confirmed it. */

import { memo, type ReactNode } from 'react';
import { cn } from '../../components/ui/cn';
import { visibleText } from '../../shared/format';
import { t } from '../../shared/i18n';
import { type Edited, FieldEditor } from './FieldEditor';
import { FieldState, FieldText } from '../../fields/FieldState';
import { type FieldRow, isStored } from '../../fields/fieldTree';

interface Props {
  id: string;
  row: FieldRow;
  chosen: boolean;
  editing: boolean;
  changed: boolean;
  /** Below the row. */
  details: ReactNode;
  onFlashed: () => void;
  onChoose: (path: string) => void;
  onEdit: () => void;
  onFinish: (path: string, value?: Edited) => void;
}

export const FieldTreeRow = memo(function FieldTreeRow(props: Props) {
  const { id, row, chosen, editing, changed, details, onFlashed, onChoose, onEdit, onFinish } = props;
  return (
    <div
      id={id}
      role="treeitem"
      aria-level={row.depth + 1}
      aria-selected={chosen}
      aria-expanded={row.kind === 'group' ? true : undefined}
      className="group/row"
      data-path={row.path}
      data-stored={row.kind === 'group' || isStored(row)}>
      <div
        className={cn(
          'grid h-8 grid-cols-[minmax(5rem,30%)_minmax(0,1fr)_auto] items-center gap-3 rounded-md px-2 hover:bg-hover group-aria-selected/row:bg-accent max-sm:h-11',
          'group-focus-visible/tree:group-aria-selected/row:outline-2 group-focus-visible/tree:group-aria-selected/row:-outline-offset-2',
          changed && 'animate-arrive',
          row.kind === 'leaf' && !isStored(row) && 'italic',
        )}
        style={{ paddingLeft: `${0.5 + row.depth}rem` }}
        onAnimationEnd={onFlashed}
        onClick={() => onChoose(row.path)}
        onDoubleClick={() => row.kind === 'leaf' && isStored(row) && onEdit()}>
        <span
          className={cn('truncate', row.kind === 'group' ? 'font-medium' : 'text-muted-foreground')}
          title={visibleText(row.path)}>
          {row.label}
        </span>
        {row.kind === 'group' ? (
          <span className="text-muted-foreground">{row.isList ? t('fields.items', { count: row.size }) : ''}</span>
        ) : editing ? (
          <FieldEditor
            value={row.value}
            label={row.label}
            type={row.field?.type}
            onFinish={(value) => onFinish(row.path, value)}
          />
        ) : (
          <FieldText row={row} />
        )}
        <FieldState row={row} className="max-w-48" />
      </div>
      {details}
    </div>
  );
});
