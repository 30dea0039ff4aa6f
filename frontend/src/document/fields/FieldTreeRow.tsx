/** One row of the fields: its label, its value, and how surely that stands on the page. */

import { memo } from 'react';
import { percent, visibleText } from '../../shared/format';
import { Icon } from '../../shared/Icon';
import { FieldEditor, type Edited } from './FieldEditor';
import styles from './FieldPanel.module.css';
import { isStored, type FieldRow, type Leaf } from './fieldTree';
import { shown } from './fieldValue';
import { FIELD_STATUSES } from './fieldStatus';

const SURE_FROM = 0.75;

interface Props {
  id: string;
  row: FieldRow;
  top: number;
  chosen: boolean;
  editing: boolean;
  changed: boolean;
  onFlashed: () => void;
  onChoose: (path: string) => void;
  onEdit: () => void;
  onFinish: (path: string, value?: Edited) => void;
}

export const FieldTreeRow = memo(function FieldTreeRow({ id, row, top, chosen, editing, changed, onFlashed, onChoose, onEdit, onFinish }: Props) {
  const names = [styles.row, row.kind === 'group' && styles.group, changed && styles.changed];
  if (row.kind === 'leaf' && !isStored(row)) names.push(styles.preview);
  return (
    <div
      id={id}
      role="treeitem"
      aria-level={row.depth + 1}
      aria-selected={chosen}
      aria-expanded={row.kind === 'group' ? true : undefined}
      className={names.filter(Boolean).join(' ')}
      style={{ transform: `translateY(${top}px)`, paddingLeft: `${0.75 + row.depth * 1}rem` }}
      data-path={row.path}
      onAnimationEnd={onFlashed}
      onClick={() => onChoose(row.path)}
      onDoubleClick={() => row.kind === 'leaf' && isStored(row) && onEdit()}
    >
      <span className={`${styles.label} truncate`} title={visibleText(row.label)}>
        {visibleText(row.label)}
      </span>
      {row.kind === 'group' ? (
        <span className="muted">{row.isList ? `${row.size} in it` : ''}</span>
      ) : editing ? (
        <FieldEditor value={row.value} label={row.path} type={row.type} onFinish={(value) => onFinish(row.path, value)} />
      ) : (
        <span className={`${styles.value} truncate`} title={shown(row.value)}>
          {shown(row.value)}
        </span>
      )}
      {row.kind === 'leaf' && <Sure leaf={row} />}
    </div>
  );
});

function Sure({ leaf }: { leaf: Leaf }) {
  const { words, tone, icon } = FIELD_STATUSES[leaf.status];
  const settled = leaf.status === 'found' || leaf.status === 'locked';
  // Found, but not surely the right place: no green tick.
  const isVague = leaf.status === 'found' && leaf.confidence !== undefined && leaf.confidence < SURE_FROM;
  return (
    <span className={`${styles.sure} ${tone === 'plain' || isVague ? '' : styles[tone]}`} title={words}>
      {settled && leaf.confidence !== undefined ? percent(leaf.confidence) : settled ? '' : words}
      <Icon name={isVague ? 'question' : icon} size={13} />
      <span className="sr-only">{words}</span>
    </span>
  );
}
