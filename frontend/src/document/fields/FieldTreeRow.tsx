/** One row of the fields: label, value, and status or confidence. */

import { memo } from 'react';
import { formatPercent, visibleText } from '../../shared/format';
import { t } from '../../shared/i18n';
import { Icon } from '../../shared/Icon';
import { FieldEditor, type Edited } from './FieldEditor';
import styles from './FieldPanel.module.css';
import { isStored, type FieldRow, type Leaf } from './fieldTree';
import { displayValue } from './fieldValue';
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
  const value = row.kind === 'leaf' ? displayValue(row.value, row.field, row.evidence?.quote) : '';
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
      <span className={`${styles.label} truncate`} title={visibleText(row.path)}>
        {row.label}
      </span>
      {row.kind === 'group' ? (
        <span className="muted">{row.isList ? t('fields.items', { count: row.size }) : ''}</span>
      ) : editing ? (
        <FieldEditor value={row.value} label={row.label} type={row.field?.type} onFinish={(value) => onFinish(row.path, value)} />
      ) : (
        <span className={`${styles.value} truncate`} title={value}>
          {value}
        </span>
      )}
      {row.kind === 'leaf' && <Confidence leaf={row} />}
    </div>
  );
});

function Confidence({ leaf }: { leaf: Leaf }) {
  const { tone, icon } = FIELD_STATUSES[leaf.status];
  const label = t(`fields.statuses.${leaf.status}`);
  const settled = leaf.status === 'found' || leaf.status === 'locked';
  // Found with low confidence: no green tick.
  const isVague = leaf.status === 'found' && leaf.confidence !== undefined && leaf.confidence < SURE_FROM;
  return (
    <span className={`${styles.sure} ${tone === 'plain' || isVague ? '' : styles[tone]}`} title={label}>
      {settled && leaf.confidence !== undefined ? formatPercent(leaf.confidence) : settled ? '' : label}
      <Icon name={isVague ? 'question' : icon} size={13} />
      <span className="sr-only">{label}</span>
    </span>
  );
}
